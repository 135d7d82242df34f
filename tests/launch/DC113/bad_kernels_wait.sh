#!/bin/bash
export CUDA_LAUNCH_BLOCKING=1 # expect: DC113=warning
export NCCL_DEBUG=INFO # expect: DC113=info
torchrun --standalone --nproc_per_node=8 train.py
