srun --nodes=1 --ntasks-per-node=8 --gpus-per-node=8 --gpu-bind=none python train_by_procid.py
