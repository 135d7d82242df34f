export WORLD_SIZE=8
torchrun --standalone --nproc_per_node=$WORLD_SIZE train.py
