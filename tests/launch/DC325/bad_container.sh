docker run --gpus all --ipc=host --cpus=2 img torchrun --standalone --nproc_per_node=8 train.py  # expect: DC325
