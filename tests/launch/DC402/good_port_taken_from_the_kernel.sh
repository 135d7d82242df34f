#!/bin/bash
sudo sysctl -w net.ipv4.ip_local_reserved_ports=41000
torchrun --nnodes=2 --nproc-per-node=8 --node-rank=$1 --master-addr=node0 --master-port=41000 train.py
