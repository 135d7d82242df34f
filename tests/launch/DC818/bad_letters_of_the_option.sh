#!/bin/bash
OUT=results
torchrun --standalone --nproc-per-node=4 train.py --learning-rate $LR --out $OUT  # expect: DC818
