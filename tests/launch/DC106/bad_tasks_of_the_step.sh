#!/bin/bash
GPUS=4
srun --partition=gpu --gres=gpu:4 --nodes=1 --ntasks-per-node=4 torchrun --standalone --nproc_per_node=$GPUS finetune.py # expect: DC106
