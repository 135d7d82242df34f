#!/usr/bin/env bash
torchrun --standalone --nproc-per-node=8 train.py | tee a.log  # expect: DC813=info DC813=info
torchrun --standalone --nproc-per-node=8 train.py --seed 2 | tee b.log
