#!/bin/bash
ray job submit --address http://head:8265 -- torchrun --nproc-per-node=8 train_ddp.py --nnodes=2
