setsid nohup torchrun --standalone --nproc_per_node=8 train.py > train.log 2>&1 &
tmux new-session -d -s train "torchrun --standalone --nproc_per_node=8 train.py"
screen -dmS train torchrun --standalone --nproc_per_node=8 train.py
systemd-run --user torchrun --standalone --nproc_per_node=8 train.py
