#!/bin/bash
#PBS -l select=2:ncpus=32:ngpus=4
torchrun --standalone --nproc-per-node=4 train.py
