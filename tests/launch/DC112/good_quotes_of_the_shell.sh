#!/bin/bash
export NCCL_SOCKET_IFNAME="eth0"
export RUN_NAME=“first”
torchrun --standalone --nproc-per-node=2 train.py
