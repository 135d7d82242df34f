export NCCL_MIN_CHANNELS=32 # expect: DC110
torchrun --standalone --nproc_per_node=8 train.py
