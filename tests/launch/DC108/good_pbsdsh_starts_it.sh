#!/bin/bash
#PBS -l select=2:ncpus=64:ngpus=8
run() { torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint="$HEAD:29400" train.py; }
if [ -n "$INNER" ]; then run; else pbsdsh -- bash -lc "INNER=1 bash $0"; fi
