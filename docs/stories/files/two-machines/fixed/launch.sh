#!/bin/bash
# the same script on both machines; gpu01 is one of them
torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_id=vae --rdzv_endpoint=gpu01:29400 train.py
