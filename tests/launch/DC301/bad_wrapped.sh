sbatch -N1 --gres=gpu:4 --wrap="torchrun --standalone --nproc_per_node=8 train.py"  # expect: DC301
