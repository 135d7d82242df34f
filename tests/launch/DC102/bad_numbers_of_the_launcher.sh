#!/bin/sh
torchrun --nnodes=two --nproc-per-node=8 --rdzv-id=a1 --rdzv-backend=c10d --rdzv-endpoint=head:29400 train.py # expect: DC102
torchrun --standalone --nproc_per_node=eight train.py # expect: DC102
