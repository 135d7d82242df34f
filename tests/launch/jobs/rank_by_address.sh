#!/bin/bash
# Copy this to both machines and start it there: the address tells which one it is.
NODE0=192.168.1.21
NODE1=192.168.1.22
NNODES=2
GPUS=2

MY_IP=$(hostname -I | awk '{print $1}')
if [ "$MY_IP" == "$NODE0" ]; then
    NODE_RANK=0
elif [ "$MY_IP" == "$NODE1" ]; then
    NODE_RANK=1
else
    echo "I am neither $NODE0 nor $NODE1 but $MY_IP" >&2
    exit 1
fi

export NCCL_SOCKET_IFNAME=enp5s0
export NCCL_IB_DISABLE=1    # there is no InfiniBand in these desktops
export NCCL_DEBUG=INFO

source ~/venv/bin/activate
cd ~/project || exit

torchrun \
    --nproc_per_node=$GPUS \
    --nnodes=$NNODES \
    --node_rank=$NODE_RANK \
    --master_addr=$NODE0 \
    --master_port=29500 \
    train.py --batch-size 32 --epochs 100
