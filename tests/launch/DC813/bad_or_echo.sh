#!/bin/bash
torchrun --standalone --nproc-per-node=8 train.py || echo "training failed"  # expect: DC813=info
