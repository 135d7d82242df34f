CUDA_VISIBLE_DEVICES=2,3 torchrun --standalone --nproc_per_node=gpu train.py
