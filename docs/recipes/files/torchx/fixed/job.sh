#!/bin/bash
torchx run -s slurm dist.ddp -j 2x8 --script train.py
