#!/bin/bash
bsub -n 8 -gpu "num=4" <<EOF
torchrun --nproc_per_node=8 --standalone train.py # expect: DC301
EOF
