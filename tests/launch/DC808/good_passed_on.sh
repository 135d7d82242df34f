#!/bin/bash
NCCL_IF=eth0
NCCL_TIMEOUT=3600
NCCL_GID=3
mpirun -np 16 -H node1:8,node2:8 -x NCCL_SOCKET_IFNAME=$NCCL_IF -x NCCL_IB_GID_INDEX=$NCCL_GID python train_by_mpi.py --timeout $NCCL_TIMEOUT
docker run --gpus all --ipc=host -e NCCL_SOCKET_IFNAME=$NCCL_IF img torchrun --standalone --nproc_per_node=8 train.py
docker run --gpus all --ipc=host --env-file cluster.env img torchrun --standalone --nproc_per_node=8 train.py
