accelerate launch --num_machines 2 --num_processes 16 --machine_rank $1 --main_process_ip 10.1.1.1 --main_process_port 70000 run.py # expect: DC102=error
