#!/bin/bash
srun --nodes=2 --ntasks-per-node=1 --gpus-per-task=8 nvidia-smi | tee gpus.txt
srun --nodes=2 --ntasks-per-node=1 ./prepare.sh | tee prepare.txt
srun --nodes=2 --ntasks-per-node=1 --gpus-per-task=8 ./train.sh --long
