#!/bin/bash
NCCL_SOCKET_IFNAME=eth0 # expect: DC808
NCCL_IB_HCA=mlx5_0,mlx5_1 # expect: DC808
torchrun --nnodes=2 --node_rank=$1 --nproc_per_node=8 --master_addr=10.0.0.1 --master_port=29500 train.py
