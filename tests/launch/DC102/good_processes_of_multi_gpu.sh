accelerate launch --multi_gpu --num_processes 2 run.py
accelerate launch --num_processes 1 run.py
