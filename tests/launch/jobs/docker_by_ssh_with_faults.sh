#!/bin/bash
HOSTS="gpu-a gpu-b"
export NCCL_IB_GID_INDEX=3 # expect: DC808
for host in $HOSTS; do
  ssh $host "docker run --rm --gpus all --network host registry.example.com/train:1 torchrun --nnodes=2 --nproc_per_node=8 --node_rank=0 --master_addr=gpu-a --master_port=29500 train.py" & # expect: DC320 DC805
done
wait
