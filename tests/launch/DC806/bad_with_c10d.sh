torchrun --nnodes=2 --node_rank=$1 --nproc_per_node=8 --rdzv_id=a --rdzv_backend=c10d --rdzv_endpoint=10.0.0.1:29400 train.py  # expect: DC806
