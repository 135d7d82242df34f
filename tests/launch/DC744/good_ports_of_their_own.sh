CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 --master_port=29501 train.py --seed 1 &
CUDA_VISIBLE_DEVICES=2,3 torchrun --nproc_per_node=2 --master_port=29502 train.py --seed 2 &
wait
torchrun --nproc_per_node=4 --master_port=29501 train.py --seed 3
torchrun --nproc_per_node=4 --master_port=29501 train.py --seed 4
