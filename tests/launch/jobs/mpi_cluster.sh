#!/bin/bash
#PBS -N train
#PBS -l select=2:ncpus=64:ngpus=8:mpiprocs=8
#PBS -l walltime=12:00:00
#PBS -j oe
cd "$PBS_O_WORKDIR"
module load openmpi/4.1 cuda/12.1
export MASTER_ADDR=$(head -n1 "$PBS_NODEFILE")
export MASTER_PORT=29500
NGPUS=$(wc -l < "$PBS_NODEFILE")
export NCCL_SOCKET_IFNAME=hsn0
mpirun -np "$NGPUS" --hostfile "$PBS_NODEFILE" --map-by ppr:8:node --bind-to none \
  -x MASTER_ADDR -x MASTER_PORT -x NCCL_SOCKET_IFNAME -x PATH -x LD_LIBRARY_PATH \
  python train_by_mpi.py --epochs 90
