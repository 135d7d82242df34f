deepspeed --hostfile=hosts --num_gpus=8 train.py
