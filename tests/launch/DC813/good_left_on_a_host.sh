#!/bin/bash
ssh gpu1 "cd /w && nohup torchrun --standalone --nproc-per-node=8 train.py > log 2>&1 &"
echo "started"
