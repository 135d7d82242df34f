#!/bin/bash
torchrun --standalone --nproc-per-node=8 train.py --fp16
torchrun --standalone --nproc-per-node=8 files.py --fp16
torchrun --standalone --nproc-per-node=8 named.py --fp16
