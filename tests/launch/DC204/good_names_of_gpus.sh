export CUDA_VISIBLE_DEVICES=GPU-8932f937-d72c-4106-c12f-20bd9faed9f6,GPU-5a1b2c3d-0000-4106-c12f-20bd9faed9f7
torchrun --standalone --nproc_per_node=2 train.py
