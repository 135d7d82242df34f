torchrun --standalone --nproc_per_node 0 train.py  # expect: DC102
