accelerate launch --multi_gpu --num_machines 2 --num_processes 16 --machine_rank $1 --main_process_ip 10.0.0.1 --main_process_port 29500 run.py
CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 accelerate launch --multi_gpu --num_machines 2 --num_processes 16 --machine_rank $1 --main_process_ip 10.0.0.1 --main_process_port 29500 run.py
