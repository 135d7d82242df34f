#!/bin/bash
# the script's own variables, read below
NCCL_TIMEOUT=7200
NNODES=2
NODE_RANK=$1
NPROC_PER_NODE=8
torchrun --nnodes=$NNODES --node_rank=$NODE_RANK --nproc_per_node=$NPROC_PER_NODE --master_addr=10.0.0.1 --master_port=29500 train.py --timeout $NCCL_TIMEOUT
