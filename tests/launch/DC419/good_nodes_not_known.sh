torchrun --nnodes=${NNODES:-1} --node_rank=${NODE_RANK:-0} --nproc_per_node=8 --master_addr=${MASTER_ADDR:-localhost} --master_port=${MASTER_PORT:-29500} train.py
