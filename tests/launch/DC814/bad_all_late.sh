#!/bin/bash
module load cuda
#SBATCH --nodes=1  # expect: DC814=warning
#SBATCH --gpus-per-node=8
torchrun --standalone --nproc-per-node=8 train.py
