#!/bin/bash
set -eo pipefail
cleanup() {
    rm -rf /tmp/cache
    exit 0  # expect: DC813=info
}
trap cleanup EXIT INT TERM
main() {
    torchrun --standalone --nproc-per-node=8 train.py
    local status=$?
    exit $status
}
main "$@"
