#!/bin/bash
set -e
torchrun --nproc-per-node=8 --nnodes=$NNODES --node-rank=$1 --master-addr=$2 --master-port=$3 pretrain_gpt.py \
    --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16
TP=${TP:-8}
torchrun --standalone --nproc-per-node=4 pretrain_gpt.py --tensor-model-parallel-size $TP
