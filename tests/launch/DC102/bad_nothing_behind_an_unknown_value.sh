#!/bin/bash
NUM=${1:-8}
PORT=${2:-29500}
LAUNCH="torchrun --nproc_per_node=$NUM --master_port=$PORT"  # expect: DC102
$LAUNCH
