#!/bin/bash
# ranks that share GPUs on purpose, and ranks without any
export NCCL_MULTI_RANK_GPU_ENABLE=1
CUDA_VISIBLE_DEVICES=0 torchrun --standalone --nproc_per_node=2 share.py
CUDA_VISIBLE_DEVICES="" torchrun --standalone --nproc_per_node=4 train.py --backend gloo
CUDA_VISIBLE_DEVICES=-1 torchrun --standalone --nproc_per_node=4 train.py
