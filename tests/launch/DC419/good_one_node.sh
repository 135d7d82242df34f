MASTER_ADDR=localhost
MASTER_PORT=6000
NNODES=1
NODE_RANK=0
torchrun --nproc_per_node 8 --nnodes $NNODES --node_rank $NODE_RANK --master_addr $MASTER_ADDR --master_port $MASTER_PORT train.py
torchrun --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint=localhost:29400 train.py
