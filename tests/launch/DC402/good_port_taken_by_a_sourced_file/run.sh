#!/bin/bash
source ./setup.sh
torchrun --nproc_per_node=8 --nnodes=2 --node_rank=$1 --master_addr=10.0.0.1 --master_port $MASTER_PORT train.py
