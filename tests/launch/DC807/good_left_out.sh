# torchrun's default is the same word on all nodes
torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint=10.0.0.1:29400 train.py
