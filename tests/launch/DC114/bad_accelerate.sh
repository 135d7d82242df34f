NCCL_P2P_DISABLE=1 accelerate launch --multi_gpu --num_processes 4 --num_machines 1 --mixed_precision bf16 run.py # expect: DC114
