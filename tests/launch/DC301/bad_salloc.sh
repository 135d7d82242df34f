salloc -N 1 --gpus=4 torchrun --standalone --nproc_per_node=8 train.py  # expect: DC301
