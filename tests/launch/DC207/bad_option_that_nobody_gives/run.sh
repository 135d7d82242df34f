torchrun --standalone --nproc_per_node=4 train.py --epochs 10  # expect: DC207
