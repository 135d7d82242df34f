# one node unless the caller sets another number
NODES=1
. ./parse_options.sh
torchrun --nnodes=$NODES --nproc_per_node=8 --rdzv_id=1 --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29400 tools/train.py
