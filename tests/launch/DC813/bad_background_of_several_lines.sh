#!/bin/sh
accelerate launch --num_processes 8 \
    train.py \
    --epochs 10 &
# expect-at 4: DC813=info
wait
