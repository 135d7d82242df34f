torchrun --max_restarts=3 --standalone --nproc_per_node=8 train.py  # expect: DC118
