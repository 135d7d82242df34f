export NCCL_P2P_DISABLE=0 NCCL_IB_DISABLE=0 NCCL_SHM_DISABLE=0
torchrun --standalone --nproc_per_node=8 train.py
