# IPv6 in brackets is how torchrun wants it
torchrun --nnodes=2 --node-rank=$1 --nproc-per-node=8 --master-addr='[fd00:10::4]' --master-port=29500 train.py
torchrun --nnodes=1:4 --nproc-per-node=gpu --rdzv-id=job7 --rdzv-backend=c10d --rdzv-endpoint=head-0.train.svc.cluster.local train.py
torchrun --standalone --nproc_per_node=auto train.py
