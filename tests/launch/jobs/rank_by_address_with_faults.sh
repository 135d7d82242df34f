#!/bin/bash
# expect-at 11: DC117 DC801
# Start on both machines.
MASTER=localhost
NCCL_SOCKET_IFNAME=enp5s0 # expect: DC808
if [[ $(hostname) == "alpha" ]]; then
    RANK_OF_NODE=0
else
    RANK_OF_NODE=1
fi
nohup python -m torch.distributed.launch --nnodes=2 --node_rank=$RANK_OF_NODE --nproc_per_node=2 --master_addr=$MASTER --master_port=29500 train.py --epochs 100 > train.log 2>&1 &
# expect-at 4: DC419
