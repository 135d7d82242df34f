#!/bin/bash
torchrun --standalone --nproc-per-node=8 train.py \
    --config large.yaml \
    --lr 1e-4  # or 2e-4

# --epochs 3
echo done || exit 1
