torchrun --standalone --nproc_per_node=8 train.py
python -m torch.distributed.run --standalone --nproc_per_node=8 train.py
