#!/bin/bash
ARGS="--batch-size $1"  # expect: DC819
torchrun --standalone --nproc-per-node=8 train.py $ARGS
