#!/bin/bash
ssh node1 bash <<'END' | tee log # expect: DC813=info
torchrun --standalone --nproc-per-node=8 train.py
END
