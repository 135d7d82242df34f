#export CUDA_LAUNCH_BLOCKING=1
# CUDA_LAUNCH_BLOCKING=1 torchrun --standalone --nproc_per_node=8 train.py
torchrun --standalone --nproc_per_node=8 train.py
