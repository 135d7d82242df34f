#!/bin/sh
# two nodes on one machine, one in the background
torchrun --nnodes=2 --node-rank=0 --nproc-per-node=1 --master-addr=127.0.0.1 --master-port=29711 --rdzv-conf=timeout=15 train.py &
torchrun --nnodes=2 --node-rank=0 --nproc-per-node=1 --master-addr=127.0.0.1 --master-port=29711 --rdzv-conf=timeout=15 train.py
wait $!
