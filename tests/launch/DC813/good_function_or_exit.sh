#!/bin/bash
run_benchmark() {
    torchrun --standalone --nproc-per-node=$1 \
        train.py
}
run_benchmark 8 | tee log.8
run_benchmark 4 || exit
echo done
