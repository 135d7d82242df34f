#!/bin/bash
set -e
torchrun --standalone --nproc-per-node=8 own_option.py --output_dir out --evaluation_strategy steps
torchrun --standalone --nproc-per-node=8 own_class.py --evaluation_strategy steps
torchrun --standalone --nproc-per-node=8 by_argparse.py --no_cuda
torchrun --standalone --nproc-per-node=8 plain.py --output_dir out --eval_strategy steps
python plain.py --evaluation_strategy steps
