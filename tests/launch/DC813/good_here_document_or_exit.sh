#!/bin/bash
ssh node1 bash <<'END' || exit 1
torchrun --standalone --nproc-per-node=8 train.py
END
echo done
