#!/bin/bash
# Which transport hangs? Try them one by one.
for name in NCCL_P2P_DISABLE NCCL_SHM_DISABLE NCCL_IB_DISABLE; do
  env "$name=1" timeout 120 torchrun --standalone --nproc_per_node=2 -m distcheck.collective || echo "$name=1 fails"
done
NCCL_P2P_DISABLE=1 timeout 120 torchrun --standalone --nproc_per_node=2 all_reduce_test.py
