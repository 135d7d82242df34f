#!/bin/bash
# Looks for the kernel that fails: slow on purpose.
export CUDA_LAUNCH_BLOCKING=1
export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ALL
export TORCH_DISTRIBUTED_DEBUG=DETAIL TORCH_SHOW_CPP_STACKTRACES=1
torchrun --standalone --nproc_per_node=2 train.py --max-steps 10
