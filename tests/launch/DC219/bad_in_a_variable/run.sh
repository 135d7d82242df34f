torchrun --nnodes=${NNODES:-1} --nproc_per_node=8 --rdzv_id=1 --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29400 train.py
