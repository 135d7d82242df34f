nohup bash -c 'torchrun --standalone --nproc_per_node=8 train.py' > log 2>&1 & # expect: DC117
