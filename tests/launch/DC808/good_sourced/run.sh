#!/bin/bash
source ./cluster.env.sh
NCCL_VERSION=2.19.3   # for the name of the image
IMAGE=registry.example.com/train:nccl$NCCL_VERSION
torchrun --standalone --nproc_per_node=8 train.py --image "$IMAGE"
