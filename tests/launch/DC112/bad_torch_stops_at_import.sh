export TORCH_DISTRIBUTED_DEBUG=1   # expect: DC112=error
torchrun --standalone --nproc_per_node=8 train.py
