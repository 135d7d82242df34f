#!/bin/bash
export MASTER_ADDR="10.0.0.1:29500" # expect: DC102
torchrun --nnodes=2 --node_rank=$1 --nproc_per_node=8 --master_addr=$MASTER_ADDR --master_port=29500 train.py
