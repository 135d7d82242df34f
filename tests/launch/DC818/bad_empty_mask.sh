#!/bin/bash
export OMP_NUM_THREADS=8
CUDA_VISIBLE_DEVICES=$GPU_IDS torchrun --standalone --nproc-per-node=4 train.py --out results  # expect: DC818
