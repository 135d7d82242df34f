# torchrun overwrites them: no harm is done
export RANK=0
export LOCAL_RANK=0
torchrun --standalone --nproc_per_node=4 train.py
