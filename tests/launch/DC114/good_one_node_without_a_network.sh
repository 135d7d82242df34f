# nothing but NVLink is used on one machine
export NCCL_IB_DISABLE=1
torchrun --standalone --nproc_per_node=8 train.py
