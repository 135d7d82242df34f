#!/bin/bash
ARGS="--num_machines 4 --machine_rank $1 --main_process_ip 10.1.1.1 --main_process_port 29500"
accelerate launch --num_processes 30 $ARGS train.py # expect: DC811
accelerate launch --num_processes 32 $ARGS train.py
accelerate launch --num_processes 30 --use_deepspeed $ARGS train.py
accelerate launch --config_file $CONFIG --num_processes 30 $ARGS train.py
