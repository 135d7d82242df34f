#!/bin/bash
export MASTER_ADDR=$(hostname -I | awk '{print $1}')
IFS=',' read -ra HOSTS <<< "$HOST_LIST"
torchrun --nnodes=$NNODES --node_rank=$1 --nproc_per_node=8 --master_addr=${HOSTS[0]} --master_port=29500 train.py
