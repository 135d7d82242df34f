#!/bin/bash
docker run --rm --gpus all -v /data:/data registry.example.com/train:3 torchrun --standalone --nproc-per-node=8 /app/train.py # expect: DC320
