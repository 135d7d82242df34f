# export NCCL_SOCKET_IFNAMES=eth0
#export GLOO_IB_DISABLE=1
: 'NCCL_DISABLE_IB=1'
echo "NCCL_DISABLE_IB=1 has no effect"
export NCCL_SOCKET_IFNAME=eth0
torchrun --standalone --nproc_per_node=8 train.py
