#!/bin/bash
bash seed.sh --dry-run || true
