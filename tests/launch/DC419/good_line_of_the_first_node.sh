#!/bin/bash
# on the first node; the other one gives its address: --node_rank=1 --master_addr=ADDRESS
torchrun --nnodes=2 --node_rank=0 --master_addr=127.0.0.1 --master_port=6000 --nproc_per_node=4 train.py
