#!/bin/bash
srun --partition=gpu --cpus-per-task=16 --gres=gpu:1 python train.py --config base.yaml # expect: DC108
