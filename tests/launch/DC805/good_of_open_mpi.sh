mpirun -np 2 -H gpu1:1,gpu2:1 bash -c 'torchrun --nnodes=2 --node_rank=$OMPI_COMM_WORLD_RANK --nproc_per_node=8 --master_addr=gpu1 --master_port=29500 train.py'
