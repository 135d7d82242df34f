#!/bin/bash
torchrun --standalone --nproc-per-node=8 train.py --fp16  # expect: DC819
