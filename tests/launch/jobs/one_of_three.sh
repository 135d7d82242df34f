#!/usr/bin/env bash
set -e
NNODES=${NNODES:-1}
if [ "$NNODES" -gt 1 ]; then
  RDZV="--rdzv_backend=c10d --rdzv_endpoint=$HEAD:29400 --rdzv_id=$JOB"
else
  RDZV="--standalone"
fi
if command -v nvidia-smi > /dev/null; then
  NPROC=$(nvidia-smi -L | wc -l)
elif [[ -n ${SLURM_GPUS_ON_NODE+x} ]]; then
  NPROC=$SLURM_GPUS_ON_NODE
else
  NPROC=1
fi
[[ "$(uname)" == Darwin ]] && export GLOO_SOCKET_IFNAME=lo0
torchrun --nnodes=$NNODES $RDZV --nproc_per_node=$NPROC train.py "${@}"
