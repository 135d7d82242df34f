#!/bin/bash
export NCCL_ASYNC_ERROR_HANDLING=1 # expect: DC111
export NCCL_DESYNC_DEBUG=1 # expect: DC111
torchrun --standalone --nproc_per_node=8 train.py
