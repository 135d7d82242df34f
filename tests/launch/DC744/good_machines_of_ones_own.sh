#!/bin/bash
# no scheduler: node 0 is the machine with this address
MASTER_ADDR=192.168.10.11
case "$(hostname -I)" in
  *192.168.10.11*) NODE_RANK=0 ;;
  *192.168.10.12*) NODE_RANK=1 ;;
  *) echo "who am I?" >&2; exit 1 ;;
esac
torchrun --nnodes=2 --nproc_per_node=4 --node_rank=$NODE_RANK --master_addr=$MASTER_ADDR --master_port=29500 train.py
