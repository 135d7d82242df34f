accelerate launch --multi_gpu --num_processes 1 run.py  # expect: DC102
