export NCCL_SOCKET_IFNAME=^lo,docker
torchrun --nnodes=2 --node_rank=$1 --nproc_per_node=8 --master_addr=10.0.0.1 --master_port=29500 train.py
export NCCL_SOCKET_IFNAME==eth0
torchrun --nnodes=2 --node_rank=$1 --nproc_per_node=8 --master_addr=10.0.0.1 --master_port=29500 train.py
export NCCL_SOCKET_IFNAME=eth,bond0,ib
export GLOO_SOCKET_IFNAME=eth0
torchrun --nnodes=2 --node_rank=$1 --nproc_per_node=8 --master_addr=10.0.0.1 --master_port=29500 train.py
