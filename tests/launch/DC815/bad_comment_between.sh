#!/bin/bash
deepspeed --num_gpus 8 train.py \
    --deepspeed ds.json \
    # --resume last.pt \
    --lr 1e-4
# expect-at 3: DC815
