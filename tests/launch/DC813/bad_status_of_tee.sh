#!/bin/bash
train() {
  torchrun --standalone --nproc-per-node=8 train.py --data "$1" | tee train.log  # expect: DC813=info
  if [ $? -eq 0 ]; then
    echo "training completed"
  else
    echo "training failed"
  fi
}
train small
