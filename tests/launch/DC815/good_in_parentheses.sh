#!/bin/bash
LAUNCH=(torchrun --standalone --nproc-per-node=8 train.py
    --lr 1e-4
)
"${LAUNCH[@]}"
bash -c "torchrun --standalone --nproc-per-node=8 train.py
--lr"
