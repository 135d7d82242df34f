#!/bin/bash
BATCH=${BATCH:-16}
torchrun --standalone --nproc-per-node=4 train.py --batch $BATCH --log-interval $LOG --out results
