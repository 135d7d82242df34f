#!/bin/bash
torchrun --nnodes=2 --node_rank=1 --master_addr=127.0.0.1 --master_port=6000 --nproc_per_node=4 train.py # expect: DC419
