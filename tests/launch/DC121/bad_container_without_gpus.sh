#!/bin/bash
docker run --rm --shm-size=16g -v "$PWD:/work" -w /work pytorch/pytorch:2.3.0-cuda12.1-cudnn8-runtime torchrun --standalone --nproc-per-node=gpu train.py # expect: DC121=info
