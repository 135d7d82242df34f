CUDA_VISIBLE_DEVICES="" torchrun --standalone --nproc_per_node=2 train.py --backend gloo
export CUDA_VISIBLE_DEVICES=$MY_GPUS
torchrun --standalone --nproc_per_node=gpu train.py
