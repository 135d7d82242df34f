python -m torch.distributed.launch --use_env --nproc_per_node=2 train.py  # expect: DC801
