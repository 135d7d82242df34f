#!/bin/bash
#PBS -l select=2:ncpus=64:ngpus=8
cd "$PBS_O_WORKDIR" || exit 1
HEAD=$(head -n1 "$PBS_NODEFILE")
torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint="$HEAD:29400" train.py # expect: DC108
