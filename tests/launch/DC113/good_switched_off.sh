export CUDA_LAUNCH_BLOCKING=0
export NCCL_DEBUG=WARN
torchrun --standalone --nproc_per_node=8 train.py
