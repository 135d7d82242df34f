#!/bin/bash
torchrun --standalone --nproc-per-node=8 pretrain_gpt.py --tensor-model-parallel-size 2 \
    --pipeline-model-parallel-size 3  # expect: DC816
