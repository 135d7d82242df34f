#!/bin/bash
accelerate launch --num_processes 8 train.py \
    --lr 1e-4  # expect: DC815
    --epochs 3
