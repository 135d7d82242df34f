#!/usr/bin/env bash
setsid torchrun --standalone --nproc-per-node=8 train.py > train.log 2>&1 &
