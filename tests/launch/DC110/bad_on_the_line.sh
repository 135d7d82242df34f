mpirun -np 16 -H a:8,b:8 -x PATH -x NCCL_IB_GID_IDX=3 python train_by_mpi.py  # expect: DC110
GLOO_SOCKET_IFNAMES=eth0 torchrun --standalone --nproc_per_node=2 train.py  # expect: DC110
