#!/bin/bash
if python train.py --help | grep -q -- --fp16; then
    torchrun --standalone --nproc-per-node=8 train.py --fp16
fi
