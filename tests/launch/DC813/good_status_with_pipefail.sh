#!/bin/bash
set -o pipefail
torchrun --standalone --nproc-per-node=8 train.py | tee train.log
if [ $? -ne 0 ]; then
  exit 1
fi
