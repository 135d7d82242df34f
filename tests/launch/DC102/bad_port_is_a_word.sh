torchrun --nnodes 2 --nproc_per_node 4 --node_rank $1 --master_addr 10.0.0.7 --master_port FREEPORT train.py  # expect: DC102
