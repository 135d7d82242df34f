#!/bin/bash
torchrun --nnodes=2 --node_rank=$1 --nproc_per_node=8 --master_addr=10.0.0.1 --master_port=66665 train.py # expect: DC102=error
