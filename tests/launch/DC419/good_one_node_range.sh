torchrun --nnodes=1:1 --nproc_per_node=8 --rdzv_id=a --rdzv_backend=c10d --rdzv_endpoint=localhost:29400 train.py
export MASTER_ADDR=localhost MASTER_PORT=29500
python train.py
