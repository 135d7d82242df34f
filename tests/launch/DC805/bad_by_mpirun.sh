mpirun -np 2 -H gpu1:1,gpu2:1 torchrun --nnodes=2 --node_rank=1 --nproc_per_node=8 --master_addr=gpu1 --master_port=29500 train.py # expect: DC805
