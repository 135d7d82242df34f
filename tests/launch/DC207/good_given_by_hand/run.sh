python train.py --local_rank 0 --gpus 1
