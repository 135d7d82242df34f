#!/bin/bash
set -eo pipefail
cleanup() {
    status=$?
    rm -rf /tmp/cache
    exit $status
}
trap cleanup EXIT INT TERM
torchrun --standalone --nproc-per-node=8 train.py
