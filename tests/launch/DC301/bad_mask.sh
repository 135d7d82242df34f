#!/bin/bash
CUDA_VISIBLE_DEVICES=0,1 torchrun --standalone --nproc_per_node=8 train.py # expect: DC301
