#!/bin/bash
export NCCL_SOCKET_IFNAMES=eth0
echo "interface: $NCCL_SOCKET_IFNAMES"
mpirun -np 8 -x NCCL_SOCKET_IFNAMES=$NCCL_SOCKET_IFNAMES python train.py # expect: DC110
