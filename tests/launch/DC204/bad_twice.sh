export CUDA_VISIBLE_DEVICES=0,1,1  # expect: DC204
torchrun --standalone --nproc_per_node=gpu train.py
