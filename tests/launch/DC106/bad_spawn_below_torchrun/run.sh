#!/bin/bash
set -e
torchrun --standalone --nproc_per_node=8 main.py --epochs 90 # expect: DC106
