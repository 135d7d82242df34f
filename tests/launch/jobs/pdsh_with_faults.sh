#!/bin/bash
pdsh -w gpu[0-3] "cd /data/exp && torchrun --nnodes=4 --node_rank=0 --nproc_per_node=8 --master_addr=gpu0 --master_port=29500 train.py" # expect: DC805
