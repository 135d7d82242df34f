nohup deepspeed --num_gpus=8 train.py > log 2>&1 &
nohup ./run_all.sh &
nohup python train.py &
