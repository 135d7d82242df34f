torchrun --nnodes=2 --node_rank=$1 --nproc_per_node=8 --rdzv_backend=$BACKEND --rdzv_endpoint=$HEAD:29400 train.py
