#!/bin/bash
source settings.sh
torchrun --standalone --nproc-per-node=4 train.py --log-interval $LOG --out results
