# the script has an option of that name, too
accelerate launch --num_processes 8 train.py --mixed_precision bf16 --num_processes 4
torchrun --nproc_per_node=2 bench.py --nproc_per_node 8
