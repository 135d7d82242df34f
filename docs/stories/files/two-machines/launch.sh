#!/bin/bash
# the same script on both machines
torchrun --nnodes=2 --nproc_per_node=8 --node_rank=0 --master_addr=localhost --master_port=29500 train.py
