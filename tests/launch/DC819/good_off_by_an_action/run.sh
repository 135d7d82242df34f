#!/bin/bash
torchrun --standalone --nproc-per-node=8 train.py --no-fp16 --no_compile
