#!/bin/bash
torchrun --standalone --nproc-per-node=8 train.py # expect: DC813=info
if [ -n "$UPLOAD" ]; then
  aws s3 cp out "s3://$BUCKET/" --recursive
fi
