nohup torchrun --signals-to-handle=SIGTERM,SIGINT --standalone --nproc_per_node=8 train.py > train.log 2>&1 &
