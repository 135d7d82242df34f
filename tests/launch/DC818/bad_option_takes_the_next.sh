#!/bin/bash
OUT=results
torchrun --standalone --nproc-per-node=4 train.py --log-interval $LOG --out $OUT  # expect: DC818
