#!/bin/bash
torchrun --standalone --nproc-per-node=8 plain.py --evaluation_strategy steps
