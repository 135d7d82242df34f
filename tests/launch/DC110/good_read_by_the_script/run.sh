#!/bin/bash
# our own switches, for the script
export NCCL_BENCH_SIZES=1G,2G
python bench.py
