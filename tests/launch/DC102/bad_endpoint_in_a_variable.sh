#!/bin/bash
HOST_NODE_ADDR="localhost:29400"  # expect: DC102
torchrun --nnodes=1 --nproc-per-node=2 --rdzv_id=7 --rdzv_backend=c10d --rdzv_endpoint=$HOST_NODE_ADDR:29400 train.py
ENDPOINT=tcp://node1:29400  # expect: DC102
torchrun --nnodes=1 --nproc-per-node=2 --rdzv_id=7 --rdzv_backend=c10d --rdzv_endpoint=$ENDPOINT train.py
MASTER_IP=node1:29400  # expect: DC102
torchrun --nnodes=1 --nproc-per-node=2 --master_addr=$MASTER_IP train.py
