CUDA_VISIBLE_DEVICES=$GPUS torchrun --standalone --nproc_per_node=8 train.py
CUDA_VISIBLE_DEVICES=0,1 torchrun --standalone --nproc_per_node=$(echo $CUDA_VISIBLE_DEVICES | tr ',' '\n' | wc -l) train.py
export CUDA_VISIBLE_DEVICES=0,1
unset CUDA_VISIBLE_DEVICES
torchrun --standalone --nproc_per_node=8 train.py
