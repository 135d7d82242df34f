#!/bin/bash
nohup torchrun --standalone --nproc_per_node=8 train.py > train.log 2>&1 &  # expect: DC117
