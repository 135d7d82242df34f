#!/bin/bash
HOSTS="gpu1 gpu2 gpu3"
for host in $HOSTS; do
  ssh $host "cd /data/exp && torchrun --nnodes=3 --node_rank=0 --nproc_per_node=8 --master_addr=gpu1 --master_port=29500 train.py" & # expect: DC805
done
wait
