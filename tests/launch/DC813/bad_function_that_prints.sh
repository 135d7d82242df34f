#!/bin/bash
say() { echo "[$(date '+%H:%M')] $*" | tee -a all.log; }
torchrun --standalone --nproc-per-node=8 train.py >> train.log 2>&1  # expect: DC813=info
cp config.yaml out/ 2> /dev/null
say "training ended: $([ -f out/last.pt ] && echo OK)"
