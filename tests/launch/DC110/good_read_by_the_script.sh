#!/bin/bash
set -euo pipefail
NCCL_IFNAME=${NCCL_IFNAME:-eth0}
export NCCL_IFNAME
ssh node1 /usr/bin/env NCCL_IFNAME="$NCCL_IFNAME" bash -s <<'REMOTE'
set -e
: "${NCCL_IFNAME:?missing}"
export NCCL_SOCKET_IFNAME="$NCCL_IFNAME"
torchrun --nnodes=2 --node-rank=1 --rdzv-backend=c10d --rdzv-endpoint=node0:29500 --nproc-per-node=8 train.py
REMOTE
