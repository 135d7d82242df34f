#!/bin/bash
OUT=results
for given in "$@"; do declare "$given"; done
torchrun --standalone --nproc-per-node=4 train.py --log-interval $LOG --out $OUT
