torchrun --nnodes=2 --node_rank=$1 --nproc_per_node=8 --master_addr=10.0.0.1 --master_port=29500 train.py
torchrun --standalone --nproc_per_node=8 train.py --port 45123 --url http://127.0.0.1:40000
torchrun --nnodes=1 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint=localhost:0 train.py
