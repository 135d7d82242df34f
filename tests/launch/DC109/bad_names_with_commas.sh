#!/bin/bash
HOSTS=node01,node02
torchrun --nnodes=2 --node_rank=$1 --nproc_per_node=8 --master_addr=node01,node02 --master_port=29500 train.py # expect: DC109
