mpirun -np 8 -x RANK=0 -x WORLD_SIZE=8 -x MASTER_ADDR=node1 -x MASTER_PORT=29500 python train.py  # expect: DC809
