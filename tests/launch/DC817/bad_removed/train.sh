#!/bin/bash
set -e
torchrun --standalone --nproc-per-node=8 plain.py --output_dir out --overwrite_output_dir --no_cuda=False # expect: DC817
deepspeed --num_gpus=8 plain.py --output_dir out --per_gpu_train_batch_size 4 # expect: DC817
