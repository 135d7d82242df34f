#!/bin/bash
rank=0
pids=()
for host in node1 node2; do
  ssh "$host" bash <<EOF &
torchrun --nnodes=2 --node-rank=$rank --nproc-per-node=8 --master-addr=node1 --master-port=29501 train.py
EOF
  pids+=($!)
  rank=$((rank + 1))
done
for pid in "${pids[@]}"; do
  wait "$pid" || exit 1
done
