#!/bin/sh
# on each of the two nodes; the first one is $HEAD
torchrun --nnodes=2 --nproc-per-node=2 --rdzv-id=1 --rdzv-backend=c10d --rdzv-endpoint=$HEAD:29400 train.py
