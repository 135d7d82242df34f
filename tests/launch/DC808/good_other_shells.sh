#!/bin/bash
configure() {
  export NCCL_SOCKET_IFNAME=eth0
  local NCCL_NOTE=unused
  typeset -x NCCL_IB_HCA=mlx5_0
}
configure
NCCL_BUFFSIZE=8388608; export NCCL_BUFFSIZE
eval "export NCCL_IB_TIMEOUT=22"
for NCCL_CROSS_NIC in 0 1; do
  export NCCL_CROSS_NIC
  torchrun --standalone --nproc_per_node=8 bench.py
done
