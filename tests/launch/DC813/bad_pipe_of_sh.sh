#!/bin/sh
torchrun --standalone --nproc-per-node=8 train.py | tee a.log  # expect: DC813=info
