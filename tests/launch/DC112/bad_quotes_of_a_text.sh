#!/bin/bash
export NCCL_SOCKET_IFNAME=“eth0”  # expect: DC112=warning
export NCCL_IB_HCA=‘mlx5_0’  # expect: DC112=warning
torchrun --standalone --nproc-per-node=2 train.py
