CUDA_VISIBLE_DEVICES="" torchrun --standalone --nproc_per_node=gpu train.py  # expect: DC121
export CUDA_VISIBLE_DEVICES=-1
torchrun --standalone --nproc_per_node=gpu eval.py  # expect: DC121
