#!/usr/bin/env bash
# Started by hand on each of two machines: ./run.sh 0, ./run.sh 1
set -euo pipefail
export MASTER_ADDR="tcp://10.20.0.4" # expect: DC102
export MASTER_PORT=29500
torchrun --nnodes=2 --nproc_per_node=8 --node_rank="$1" --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" train.py
