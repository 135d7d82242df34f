#!/bin/bash
set -x
python -m torch.distributed.run train.py --nproc_per_node 4 --data /data  # expect: DC803
