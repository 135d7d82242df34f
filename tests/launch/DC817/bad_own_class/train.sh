#!/bin/bash
torchrun --standalone --nproc-per-node=8 train.py --output_dir out --evaluation_strategy steps # expect: DC817
