#!/bin/bash
CUDA_VISIBLE_DEVICES=2,3 deepspeed --include localhost:0,1 train.py --deepspeed ds.json # expect: DC812
