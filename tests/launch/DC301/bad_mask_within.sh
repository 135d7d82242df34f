#!/bin/bash
docker run --gpus all --ipc=host -e CUDA_VISIBLE_DEVICES=0 img torchrun --nproc_per_node=4 train.py # expect: DC301
docker run --gpus all --ipc=host img bash -c "export CUDA_VISIBLE_DEVICES=0,1,2; torchrun --nproc_per_node=4 train.py" # expect: DC301
export CUDA_VISIBLE_DEVICES=0,1
docker run --gpus all --ipc=host -e CUDA_VISIBLE_DEVICES img torchrun --nproc_per_node=4 train.py # expect: DC301
