export CUDA_VISIBLE_DEVICES="4,5,6,7"
accelerate launch --multi_gpu --num_machines 1 --num_processes 8 run.py --seed 1 # expect: DC301
