#!/usr/bin/env bash
# Usage on each of the four machines: NODE_RANK=<0..3> ./four_nodes_static.sh
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
NNODES=4
GPUS_PER_NODE=8
NODE_RANK=${NODE_RANK:?which machine is this? 0 to 3}
MASTER_ADDR=${MASTER_ADDR:-10.32.4.11}
MASTER_PORT=${MASTER_PORT:-29500}

DISTRIBUTED_ARGS="
    --nproc_per_node $GPUS_PER_NODE \
    --nnodes $NNODES \
    --node_rank $NODE_RANK \
    --master_addr $MASTER_ADDR \
    --master_port $MASTER_PORT
"

GPT_ARGS="
    --num-layers 24 \
    --hidden-size 2048 \
    --num-attention-heads 16 \
    --micro-batch-size 4 \
    --global-batch-size 512 \
    --lr 1.5e-4
"

export CUDA_DEVICE_MAX_CONNECTIONS=1
export NCCL_IB_TIMEOUT=22

torchrun $DISTRIBUTED_ARGS "$HERE/pretrain_gpt.py" $GPT_ARGS \
    --save /checkpoints/gpt --load /checkpoints/gpt 2>&1 | tee "train.$NODE_RANK.log"
