export NCCL_P2P_DISABLE=$NO_P2P
export TORCH_DISTRIBUTED_DEBUG=${DEBUG_LEVEL:-OFF}
export NCCL_BUFFSIZE=$((4 * 1024 * 1024))
export LOGLEVEL="${LOGLEVEL}"
torchrun --standalone --nproc_per_node=8 train.py
