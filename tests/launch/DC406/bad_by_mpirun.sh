mpirun -np 16 -H a:8,b:8 -x NCCL_SOCKET_IFNAME=lo -x MASTER_ADDR=a -x MASTER_PORT=29500 python train_by_mpi.py  # expect: DC406
