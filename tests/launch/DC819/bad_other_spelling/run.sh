#!/bin/bash
torchrun --standalone --nproc-per-node=8 train.py --batch-size 16  # expect: DC819
