#!/bin/bash
NNODES=2
NODE_RANK=0  # 1 on the other machine
torchrun --nnodes=$NNODES --node_rank=$NODE_RANK --nproc_per_node=8 --master_addr=10.0.0.1 --master_port=29500 train.py
