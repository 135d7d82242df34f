#!/bin/bash
set -a
NCCL_SOCKET_IFNAME=eth0
set +a
declare -x NCCL_IB_HCA=mlx5_0
NCCL_IB_GID_INDEX=3
export NCCL_IB_GID_INDEX
NCCL_IB_TIMEOUT=22 NCCL_IB_RETRY_CNT=7 torchrun --standalone --nproc_per_node=8 train.py
env NCCL_BUFFSIZE=8388608 torchrun --standalone --nproc_per_node=8 train.py
