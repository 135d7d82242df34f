#!/bin/bash
torchrun --standalone --nproc-per-node=8 train.py
if [ -f out/model.pt ]; then
  python export.py
else
  python repair.py
fi
