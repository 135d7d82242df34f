export NCCL_SOCKET_IFNAME=eth0
export NCCL_IB_HCA=mlx5_0
