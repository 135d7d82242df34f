if [[ "${DEBUG:-0}" == 1 ]]; then
  export CUDA_LAUNCH_BLOCKING=1
  export NCCL_DEBUG=INFO
fi
torchrun --standalone --nproc_per_node=8 train.py
