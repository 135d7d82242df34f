export NCCL_SOCKET_IFNAME=eth0 NCCL_IB_HCA=mlx5
mpirun -np 16 -H node1:8,node2:8 -x NCCL_SOCKET_IFNAME -x NCCL_IB_HCA python train_by_mpi.py
docker run --gpus all --ipc=host -e NCCL_SOCKET_IFNAME --env NCCL_IB_HCA img torchrun --standalone --nproc_per_node=8 train.py
