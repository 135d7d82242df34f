#!/bin/bash
set -e
torchrun --standalone --nproc-per-node=8 pretrain_gpt.py --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2
torchrun --standalone --nproc-per-node=8 pretrain_gpt.py --tensor-model-parallel-size 3 --tensor-model-parallel-size 4
