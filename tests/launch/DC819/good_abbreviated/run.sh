#!/bin/bash
torchrun --standalone --nproc-per-node=8 train.py -b16 --learn 1e-4
