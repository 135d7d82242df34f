#!/bin/bash
# expect-at 9: DC803
# expect-at 14: DC301
set -e

run() {
  local gpus=$1
  shift
  torchrun --standalone "$1" --nproc_per_node="$gpus" "${@:2}"
}

train_all() {
  for size in small base; do
    CUDA_VISIBLE_DEVICES=0,1 torchrun --standalone --nproc_per_node=4 train.py --size "$size"
  done
}

run 8 train.py --size large
train_all
