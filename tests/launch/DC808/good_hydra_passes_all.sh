#!/bin/bash
export NCCL_IB_GID_INDEX=3
mpirun -n 16 -ppn 8 -host node1,node2 --map-by ppr:2:socket -genv FI_PROVIDER=psm3 python train_by_mpi.py
