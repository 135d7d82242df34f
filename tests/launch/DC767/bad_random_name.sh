#!/bin/bash
torchrun --nnodes=2 --nproc-per-node=4 --node-rank="$1" --master-addr=10.0.0.1 --master-port="$2" train.py --run-name $RANDOM # expect: DC767=info
