export MASTER_ADDR=10.0.0.1
export MASTER_PORT=45123 # expect: DC402
torchrun --nnodes=2 --node_rank=$1 --nproc_per_node=8 --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT train.py
