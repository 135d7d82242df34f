#!/bin/bash
# counts nodes, and is read by this script alone
WORLD_SIZE=${WORLD_SIZE:-1}
RANK=${RANK:-0}
torchrun --nnodes=$WORLD_SIZE --node_rank=$RANK --nproc_per_node=8 --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT train.py
