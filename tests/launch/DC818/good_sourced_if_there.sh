#!/bin/bash
OUT=results
test -f ./settings && builtin source ./settings
torchrun --standalone --nproc-per-node=4 train.py --log-interval $LOG --out $OUT
