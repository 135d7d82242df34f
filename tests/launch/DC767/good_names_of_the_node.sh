#!/bin/bash
torchrun --nnodes=2 --nproc-per-node=4 --node-rank="$1" --master-addr=10.0.0.1 --master-port="$2" train.py --log-dir /tmp/log-$(hostname)-$(date +%s) --seed $RANDOM --start $(date +%s)
