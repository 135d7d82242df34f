#!/usr/bin/env bash
# expect-at 6: DC207 DC801
CONFIG=$1
GPUS=8
PYTHONPATH="$(dirname $0)/..":$PYTHONPATH \
python -m torch.distributed.launch --nproc_per_node=$GPUS train.py $CONFIG --seed 0
