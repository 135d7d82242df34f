export NCCL_NET_GDR_LEVEL=pix # expect: DC112=warning
torchrun --standalone --nproc_per_node=8 train.py
