#!/bin/sh
# on each of the two machines; the first one is $HEAD
torchrun --nnodes=2 --nproc-per-node=8 --rdzv-id=ae --rdzv-backend=c10d --rdzv-endpoint=$HEAD:29400 train.py
