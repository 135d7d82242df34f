#!/bin/bash
qsub -l select=1:ncpus=64:ngpus=8 <<EOF
torchrun --standalone --nproc-per-node=8 train.py
EOF
qsub -N evaluate evaluate.sh
echo submitted
