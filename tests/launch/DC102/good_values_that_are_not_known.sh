#!/bin/bash
MASTER_ADDR=${MASTER_ADDR:?say where node 0 is}
MASTER_PORT=${MASTER_PORT:-29500}
PORT_OFFSET=$(( RANDOM % 1000 ))
torchrun --nnodes="$NNODES" --nproc_per_node="${GPUS:-8}" --node_rank="$NODE_RANK" \
  --master_addr="$MASTER_ADDR" --master_port="$((MASTER_PORT + PORT_OFFSET))" train.py "$@"
