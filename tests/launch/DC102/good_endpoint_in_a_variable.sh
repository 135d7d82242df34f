#!/bin/bash
HOST_NODE_ADDR="localhost:29400"
MASTER=node1:29400
torchrun --nnodes=1 --nproc-per-node=2 --rdzv_id=7 --rdzv_backend=c10d --rdzv_endpoint=$HOST_NODE_ADDR train.py
torchrun --nnodes=1 --nproc-per-node=2 --rdzv-id=7 --rdzv-backend=c10d --rdzv-endpoint "${MASTER}" train.py
PLAIN_ADDR=[fe80::1]:29400
torchrun --nnodes=1 --nproc-per-node=2 --rdzv-id=7 --rdzv-backend=c10d --rdzv-endpoint="$PLAIN_ADDR" train.py
