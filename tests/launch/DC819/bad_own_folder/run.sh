#!/bin/bash
cd "$SLURM_SUBMIT_DIR"
torchrun --standalone --nproc-per-node=8 train.py --fp16  # expect: DC819
