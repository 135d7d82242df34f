#!/bin/bash
python download.py
