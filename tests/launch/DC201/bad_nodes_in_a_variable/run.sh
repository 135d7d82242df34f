torchrun --nnodes=$NNODES --nproc_per_node=8 --rdzv_id=$ID --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29400 train.py
