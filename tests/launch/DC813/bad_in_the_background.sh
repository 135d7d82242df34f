#!/usr/bin/env bash
torchrun --standalone --nproc-per-node=8 train.py > train.log 2>&1 &  # expect: DC813=info
