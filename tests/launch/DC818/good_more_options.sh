#!/bin/bash
OUT=results
torchrun --standalone --nproc-per-node=4 train.py --fp16 $RESUME --out $OUT
