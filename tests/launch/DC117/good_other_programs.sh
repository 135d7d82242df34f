nohup python serve.py --port 8000 > serve.log 2>&1 &
nohup tensorboard --logdir runs &
nohup bash -c 'sleep 60; echo done' &
torchrun --standalone --nproc_per_node=8 train.py
