#!/bin/bash
finish() {
  echo "checking"
  test -f out/last.pt
}
torchrun --standalone --nproc-per-node=8 train.py
finish
