#!/bin/sh
# on each of the four machines: sh node.sh <number of the machine>
python3 -m torch.distributed.run --nnodes=4 --nproc_per_node=4 --node_rank=$1 --master_addr=10.9.0.1 --master_port=29500 src/main.py
