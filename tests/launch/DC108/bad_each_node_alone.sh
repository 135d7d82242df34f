srun --nodes=2 --ntasks-per-node=1 --gres=gpu:8 torchrun --nproc-per-node=8 train.py  # expect: DC108
