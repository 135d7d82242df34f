mpirun -np 8 torchrun --standalone --nproc-per-node=8 train.py  # expect: DC106
