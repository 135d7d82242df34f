#!/bin/bash
# the platform sets NODE_RANK, MASTER_ADDR and so on
export NCCL_TOPO_FILE=/opt/microsoft/ndv4-topo.xml
export NCCL_IB_PCI_RELAXED_ORDERING=1 UCX_TLS=rc UCX_NET_DEVICES=mlx5_0:1
export CUDA_DEVICE_ORDER=PCI_BUS_ID OMPI_MCA_coll_hcoll_enable=0
export FI_PROVIDER=efa FI_EFA_USE_DEVICE_RDMA=1
export TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1
export PYTHONPATH=$PYTHONPATH:$(pwd) WANDB_MODE=offline
torchrun --nnodes=$AZUREML_NODE_COUNT --node_rank=$NODE_RANK --nproc_per_node=8 --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT train.py
