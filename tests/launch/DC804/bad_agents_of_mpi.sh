mpirun -np 2 -H a:1,b:1 torchrun --nnodes=4 --nproc_per_node=8 --rdzv_id=x --rdzv_backend=c10d --rdzv_endpoint=a:29400 train.py  # expect: DC804
