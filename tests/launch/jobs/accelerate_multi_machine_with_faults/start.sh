#!/bin/bash
# start.sh 0 on the first machine, start.sh 1 on the second
nohup accelerate launch --config_file machine$1.yaml train.py --lr 1e-4 > log.$1 2>&1 & # expect: DC117
