srun --ntasks=1 --gpus-per-task=8 torchrun --standalone --nproc_per_node=8 train.py
