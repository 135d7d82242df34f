#!/usr/bin/env bash
CMD="torchrun --standalone --nproc_per_node=2 train.py"
LOG=logs/$(date +%F).log
nohup $CMD >"$LOG" 2>&1 & # expect: DC117
echo "pid $!"
