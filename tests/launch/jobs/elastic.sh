#!/bin/sh
# Nodes come and go; every one runs this same line.
JOB_ID=${JOB_ID:?}
HEAD=${HEAD:?host:port of the store}
exec torchrun \
  --nnodes=2:8 \
  --nproc-per-node=gpu \
  --max-restarts=3 \
  --rdzv-id="$JOB_ID" \
  --rdzv-backend=c10d \
  --rdzv-endpoint="$HEAD" \
  --rdzv-conf=join_timeout=600 \
  imagenet.py --resume-from latest "$@"
# expect-at 8: DC118
