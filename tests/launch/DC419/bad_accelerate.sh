accelerate launch --multi_gpu --num_machines 2 --num_processes 16 --machine_rank $1 --main_process_ip 127.0.0.1 --main_process_port 29500 run.py  # expect: DC419
