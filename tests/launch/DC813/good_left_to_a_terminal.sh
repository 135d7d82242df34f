#!/bin/bash
tmux new-session -d -s train "torchrun --standalone --nproc-per-node=8 train.py"
echo "started"
