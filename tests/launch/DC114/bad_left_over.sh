#!/bin/bash
export NCCL_P2P_DISABLE=1 # expect: DC114
export NCCL_SHM_DISABLE=1 # expect: DC114
torchrun --standalone --nproc_per_node=8 train.py
