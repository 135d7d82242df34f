#!/bin/bash
set -e
pdsh -w node[1-4] "cd /repo && torchrun --nnodes=4 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-id=7 --rdzv-endpoint=node1:29400 train.py"  # expect: DC813=info
