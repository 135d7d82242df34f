head=$1
torchrun --nnodes=2 --nproc-per-node=8 --rdzv-id=exp7 --rdzv-backend=c10d --rdzv-endpoint=http://10.1.2.3:29400 train.py  # expect: DC102
