#!/bin/bash
torchrun --standalone --nproc-per-node=8 train.py tool --fp16
