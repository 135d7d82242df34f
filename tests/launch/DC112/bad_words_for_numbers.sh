#!/bin/bash
export NCCL_P2P_DISABLE=true # expect: DC112=error
export NCCL_BUFFSIZE=8MB # expect: DC112=error
torchrun --standalone --nproc_per_node=8 train.py
