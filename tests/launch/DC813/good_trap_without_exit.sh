#!/bin/bash
cleanup() {
    rm -rf /tmp/cache
}
interrupted() {
    cleanup
    exit 0
}
trap cleanup EXIT
trap interrupted INT TERM
torchrun --standalone --nproc-per-node=8 train.py
