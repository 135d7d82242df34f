#!/bin/bash
export CUDA_VISIBLE_DEVICES=0
python preprocess.py
ssh gpu1 torchrun --standalone --nproc_per_node=8 train.py
