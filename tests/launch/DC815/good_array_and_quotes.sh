#!/bin/bash
set -o pipefail
ARGS=(
    --lr 1e-4  # or 2e-4
    # --epochs 3
    --config large.yaml
)
COMMAND="torchrun --standalone --nproc-per-node=8 train.py
    --lr 1e-4"
$COMMAND --name a\ b
torchrun --standalone --nproc-per-node=8 other.py "${ARGS[@]}" 2>&1 |\
    tee log.txt
