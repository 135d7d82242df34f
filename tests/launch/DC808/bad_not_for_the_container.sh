export NCCL_IB_DISABLE=0
export NCCL_SOCKET_IFNAME=ens5  # expect: DC808
docker run --rm --gpus all --ipc=host --network=host -e NCCL_IB_DISABLE=0 img torchrun --nnodes=2 --node_rank=$1 --nproc_per_node=8 --master_addr=10.0.0.1 --master_port=29500 train.py
