#!/bin/bash
set -e
torchrun --standalone --nproc-per-node=1 convert.py --target-tensor-model-parallel-size 8
python tools/checkpoint/convert.py --tensor-model-parallel-size 8
