srun --nodes=1 --ntasks-per-node=8 --gpus-per-node=8 --gpu-bind=single:1 python train_by_procid.py  # expect: DC203=info
