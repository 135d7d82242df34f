#!/bin/bash
gantry run --workspace ai2/mine --gpus 8 -- torchrun --standalone --nproc-per-node 8 train.py
