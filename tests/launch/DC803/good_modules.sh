torchrun --nproc_per_node=2 -m pkg.train --nproc 3
torchrun --nproc_per_node 2 --no_python ./wrapper.sh python train.py --nproc_per_node 4
