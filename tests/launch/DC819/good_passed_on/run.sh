#!/bin/bash
torchrun --standalone --nproc-per-node=8 train.py --fp16
torchrun --standalone --nproc-per-node=8 fixed.py --fp16
torchrun --standalone --nproc-per-node=8 rest.py tool --fp16
