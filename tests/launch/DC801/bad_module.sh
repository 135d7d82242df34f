#!/bin/bash
python -m torch.distributed.launch --nproc_per_node=8 --use_env train.py --epochs 90 # expect: DC801
