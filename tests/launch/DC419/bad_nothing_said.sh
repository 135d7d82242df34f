torchrun --nnodes=2 --node-rank=$1 --nproc-per-node=8 train.py  # expect: DC419
