#!/bin/bash
python train.py --help
torchrun --standalone --nproc-per-node=8 train.py
python train.py -h | head
