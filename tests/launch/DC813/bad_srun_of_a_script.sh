#!/bin/bash
srun --nodes=2 --ntasks-per-node=1 --gpus-per-task=8 --partition=gpu ./train.sh --long > train.log 2>&1 &  # expect: DC813=info
