#!/bin/bash
# simulates to be two nodes, for tests
CUDA_VISIBLE_DEVICES=0,1 torchrun --nnodes=2 --node_rank=0 --nproc_per_node=2 --master_addr=localhost --master_port=29501 train.py &
CUDA_VISIBLE_DEVICES=2,3 torchrun --nnodes=2 --node_rank=1 --nproc_per_node=2 --master_addr=localhost --master_port=29501 train.py
wait
