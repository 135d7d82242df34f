#!/bin/bash
export NCCL_IB_GID_INDEX=3 # expect: DC808
export NCCL_SOCKET_IFNAME=bond0
mpirun -np 16 -H node1:8,node2:8 --mca btl_tcp_if_include bond0 -x PATH -x LD_LIBRARY_PATH -x NCCL_SOCKET_IFNAME python train_by_mpi.py
