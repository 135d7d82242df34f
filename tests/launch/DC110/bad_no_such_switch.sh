#!/bin/bash
export GLOO_IB_DISABLE=0 # expect: DC110
export NCCL_SOCKET_IFNAMES=eth0 # expect: DC110
torchrun --standalone --nproc_per_node=8 train.py
