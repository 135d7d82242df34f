#!/bin/bash
bsub -n 8 -gpu "num=8" -R "span[ptile=8]" <<EOF
#BSUB -J train
torchrun --nproc_per_node=8 --standalone train.py
EOF
bsub < job.lsf
