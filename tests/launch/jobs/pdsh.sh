#!/bin/bash
# %n is the number of the host for pdsh
pdsh -w gpu[0-3] "cd /data/exp && torchrun --nnodes=4 --node_rank=%n --nproc_per_node=8 --master_addr=gpu0 --master_port=29500 train.py"
pdsh -w gpu[0-3] pkill -f train.py
clush -w gpu[0-3] 'nvidia-smi -L'
