CUDA_VISIBLE_DEVICES=0 python eval.py
(export CUDA_VISIBLE_DEVICES=1; python eval.py --split test)
torchrun --standalone --nproc_per_node=8 train.py
