#!/bin/bash
# run this on both machines
RUN_ID=$(date +%s)
torchrun --nnodes=2 --nproc_per_node=8 --rdzv_id=$RUN_ID --rdzv_backend=c10d --rdzv_endpoint=10.0.0.1:29400 train.py # expect: DC807
