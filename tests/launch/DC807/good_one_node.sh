torchrun --nnodes=1 --nproc_per_node=8 --rdzv_id=$RANDOM --rdzv_backend=c10d --rdzv_endpoint=localhost:0 train.py
