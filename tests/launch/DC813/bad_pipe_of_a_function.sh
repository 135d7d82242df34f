#!/bin/bash
run_benchmark() {
    torchrun --standalone --nproc-per-node=$1 \
        train.py
}
for number in 1 2 4 8; do
    run_benchmark $number 2>&1 | tee log.$number  # expect: DC813=info
done
