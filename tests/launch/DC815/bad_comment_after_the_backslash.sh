#!/bin/bash
torchrun --standalone --nproc-per-node=8 train.py \
    --config large.yaml \  # or small.yaml
    --lr 1e-4
# expect-at 3: DC815
