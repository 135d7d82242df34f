#!/bin/bash
torchrun --standalone --nproc-per-node=8 train.py --batch_size=16 --learning_rate 1e-4 $ARGS
torchrun --standalone --nproc-per-node=8 train.py --help --unknown
