#!/bin/bash
rank=0
for host in node1 node2; do
  # expect-at 5: DC813=info
  ssh "$host" bash <<EOF &
torchrun --nnodes=2 --node-rank=$rank --nproc-per-node=8 --master-addr=node1 --master-port=29501 train.py
echo "$host is done"
EOF
  rank=$((rank + 1))
done
wait
