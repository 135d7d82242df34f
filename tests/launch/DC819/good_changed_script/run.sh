#!/bin/bash
sed -i "s/--epochs/--fp16/" train.py
torchrun --standalone --nproc-per-node=8 train.py --fp16 1
