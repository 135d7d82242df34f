#!/bin/bash
torchrun --standalone --nproc-per-node=8 pretrain_gpt.py --tensor-model-parallel-size 2 \
    --context-parallel-size 8 "$@"  # expect: DC816=warning
