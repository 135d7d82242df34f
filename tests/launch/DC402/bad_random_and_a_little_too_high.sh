#!/bin/bash
# 1,024 of 32,768 draws are among the ports of outgoing connections.
torchrun --nproc_per_node=8 --master_port=$((1024 + RANDOM)) train.py  # expect: DC402=info
