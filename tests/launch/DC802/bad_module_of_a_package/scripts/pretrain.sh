#!/bin/bash
set -euo pipefail
python -m zoo.pretrain --config configs/base.yaml # expect: DC802
