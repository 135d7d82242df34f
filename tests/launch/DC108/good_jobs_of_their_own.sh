# four trials side by side, one on each node
srun --nodes=4 --ntasks-per-node=1 --gres=gpu:8 torchrun --standalone --nproc-per-node=8 search.py --trial-by-node
