# nohup torchrun --standalone --nproc_per_node=8 train.py &
echo 'nohup torchrun train.py &'
torchrun --standalone --nproc_per_node=8 train.py
