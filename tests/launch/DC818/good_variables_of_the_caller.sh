#!/bin/bash
torchrun --standalone --nproc-per-node=4 train.py --model $MODEL --log-interval $LOG --out results
