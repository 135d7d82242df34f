#!/bin/bash
NUM=${1:-8}
LAUNCH="torchrun --nproc_per_node=$NUM $CMD"
$LAUNCH
SCRIPT="train.py --lr 1"
OTHER="torchrun --nproc_per_node=${NUM} ${SCRIPT}"
$OTHER
MORE="torchrun --nproc_per_node=$(nvidia-smi -L | wc -l) $(pwd)/train.py"
eval $MORE
