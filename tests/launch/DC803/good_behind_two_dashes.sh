torchrun --standalone --nproc_per_node=8 wrapper.py -- torchrun --nproc_per_node=2 inner.py
python run_remote.py "torchrun train.py --nproc_per_node=8"
