torchrun --max_restarts=0 --standalone --nproc_per_node=8 train.py
