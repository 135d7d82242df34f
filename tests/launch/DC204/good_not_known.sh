for gpu in 0 1 2 3; do
  CUDA_VISIBLE_DEVICES=$gpu python sweep.py --seed "$gpu" &
done
wait
export CUDA_VISIBLE_DEVICES=$(nvidia-smi --query-gpu=index --format=csv,noheader | paste -sd,)
CUDA_VISIBLE_DEVICES=${GPUS:-0,1} torchrun --standalone --nproc_per_node=$N train.py
