#!/bin/bash
torchrun --standalone --nproc-per-node=8 \
    train.py \
    --epochs 10 \
    2>&1 | tee log
# expect-at 5: DC813=info
