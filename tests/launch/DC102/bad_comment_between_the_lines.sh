#!/bin/bash
torchrun --nproc_per_node=2 \
  # --nnodes=2 \
  train.py
# expect-at 2: DC102
