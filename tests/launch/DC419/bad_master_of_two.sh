#!/bin/bash
MASTER_ADDR=127.0.0.1 # expect: DC419
MASTER_PORT=6000
NNODES=2
NODE_RANK=$1
DISTRIBUTED_ARGS="--nproc_per_node 8 --nnodes $NNODES --node_rank $NODE_RANK --master_addr $MASTER_ADDR --master_port $MASTER_PORT"
torchrun $DISTRIBUTED_ARGS pretrain_gpt.py --tensor-model-parallel-size 8
