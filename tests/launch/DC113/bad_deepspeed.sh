export DS_SKIP_CUDA_CHECK=1
export CUDA_LAUNCH_BLOCKING=1 # expect: DC113=warning
deepspeed --include localhost:6,7 --master_port 13023 train.py --max_steps 10000
