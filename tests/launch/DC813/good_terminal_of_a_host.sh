#!/bin/bash
ssh node1 'bash -s' <<END
tmux new-session -d -s train "torchrun --standalone --nproc-per-node=8 train.py"
END
echo started
