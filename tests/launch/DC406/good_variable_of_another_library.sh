export GLOO_SOCKET_IFNAME=lo
torchrun --standalone --nproc_per_node=2 test_gloo.py
export TP_SOCKET_IFNAME=eth0 UCX_NET_DEVICES=mlx5_0:1
torchrun --nnodes=2 --node_rank=$1 --nproc_per_node=8 --master_addr=10.0.0.1 --master_port=29500 train.py
