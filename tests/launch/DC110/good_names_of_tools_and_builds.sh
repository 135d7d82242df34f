#!/bin/bash
export NCCL_ROOT=/opt/nccl NCCL_HOME=/opt/nccl NCCL_INCLUDE_DIR=/opt/nccl/include
export NCCL_FASTRAK_CTRL_DEV=eth0
export NCCL_FASTRAK_IFNAME=eth1,eth2,eth3,eth4
export NCCL_GPUDIRECTTCPX_SOCKET_IFNAME=eth1
export NCCL_IBEXT_DISABLE=0
export OFI_NCCL_PROTOCOL=RDMA FI_PROVIDER=efa
torchrun --standalone --nproc_per_node=8 train.py
