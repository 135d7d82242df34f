#!/bin/bash
for LOG in 1 10; do
    torchrun --standalone --nproc-per-node=4 train.py --log-interval $LOG --out results
done
torchrun --standalone --nproc-per-node=4 train.py --note "$NOTE" --out results
