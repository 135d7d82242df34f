torchrun --standalone --nproc_per_node=8 train.py --max_restarts_of_loader=3
