#!/bin/bash
case $1 in
  ddp) RUN="torchrun --standalone --nproc-per-node=8" ;;
  single) RUN="python" ;;
esac
CMD="$RUN train.py"
eval "$CMD" | tee train.log  # expect: DC813=info
