PORT=$(shuf -n 1 -i 20000-29999)
torchrun --nproc_per_node=8 --master_port=$PORT train.py
torchrun --nproc_per_node=8 --master_port=$((RANDOM % 10000 + 10000)) train.py
torchrun --nproc_per_node=8 --master_port=$(python -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])') train.py
