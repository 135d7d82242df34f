#!/bin/bash
OUT=results
export $(grep -v '^#' settings.txt | xargs)
torchrun --standalone --nproc-per-node=4 train.py --log-interval $LOG --out $OUT
