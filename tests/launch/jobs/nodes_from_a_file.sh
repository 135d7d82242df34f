#!/bin/bash
# machines.txt: one host a line
NNODES=$(wc -l < machines.txt)
MASTER=$(head -n 1 machines.txt)
RANK=0
while read -r host; do
  ssh -n "$host" "bash -lc 'cd $PWD; NCCL_DEBUG=WARN torchrun --nnodes=$NNODES --node_rank=$RANK --nproc_per_node=8 --master_addr=$MASTER --master_port=29500 train.py'" &
  RANK=$((RANK + 1))
done < machines.txt
wait
