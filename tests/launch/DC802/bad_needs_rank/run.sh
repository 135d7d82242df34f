#!/bin/bash
cd "$(dirname "$0")"
export CUDA_VISIBLE_DEVICES=0,1,2,3
python train.py --batch 64 # expect: DC802
