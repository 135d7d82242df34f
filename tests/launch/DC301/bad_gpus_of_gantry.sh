#!/bin/bash
gantry run --workspace ai2/mine --gpus 4 -- torchrun --standalone --nproc-per-node 8 train.py  # expect: DC301
