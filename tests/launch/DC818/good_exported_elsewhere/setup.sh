#!/bin/bash
export LOG=100
torchrun --standalone --nproc-per-node=4 check.py
