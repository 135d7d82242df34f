ssh gpu1 "cd /data/exp && torchrun --nnodes=2 --node_rank=0 --nproc_per_node=8 --master_addr=gpu1 --master_port=29500 train.py" &
ssh gpu2 "cd /data/exp && torchrun --nnodes=2 --node_rank=1 --nproc_per_node=8 --master_addr=gpu1 --master_port=29500 train.py" &
wait
