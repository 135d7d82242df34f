#!/bin/bash
# Starts one container on each machine.
set -euo pipefail
HOSTS=(gpu-a gpu-b)
MASTER=${HOSTS[0]}
IMAGE=registry.example.com/team/train:2024.06
for i in "${!HOSTS[@]}"; do
  ssh "${HOSTS[$i]}" docker run --rm -d \
    --gpus all --network host --ipc host --ulimit memlock=-1 --ulimit stack=67108864 \
    -e NCCL_SOCKET_IFNAME=bond0 -e NCCL_DEBUG=WARN \
    -v /data:/data -v /home/"$USER"/exp:/workspace -w /workspace \
    "$IMAGE" \
    torchrun --nnodes=2 --nproc_per_node=8 --node_rank="$i" --master_addr="$MASTER" --master_port=29500 train.py
done
