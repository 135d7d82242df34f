#!/bin/bash
torchrun train.py --nproc_per_node=8 --nnodes=1 --config base.yaml # expect: DC803
