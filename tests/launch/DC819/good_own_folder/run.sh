#!/bin/bash
torchrun --standalone --nproc-per-node=8 /home/me/another/train.py --fp16
