# talks to nobody but itself
export NCCL_SOCKET_IFNAME=lo
torchrun --standalone --nproc_per_node=8 train.py
