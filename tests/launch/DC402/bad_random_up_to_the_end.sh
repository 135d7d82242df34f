#!/bin/bash
PORT=$(shuf -n 1 -i 20000-65000) # expect: DC402
torchrun --nproc_per_node=8 --master_port=$PORT train.py
