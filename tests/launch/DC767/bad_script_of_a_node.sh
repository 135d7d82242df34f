#!/bin/bash
OUT=runs/$(date +%Y%m%d_%H%M%S)
torchrun --nnodes=2 --nproc-per-node=4 --node-rank="$1" --master-addr=10.0.0.1 --master-port="$2" train.py --out $OUT # expect: DC767=info
