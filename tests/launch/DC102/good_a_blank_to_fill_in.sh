#!/bin/bash
# number of GPUs to use
n_gpus=
torchrun --nproc_per_node ${n_gpus} chat.py \
  --model_name large
