#!/bin/bash
srun --nodes=1 --ntasks-per-node=8 --gpus-per-node=8 bash <<'EOF'
source ~/venv/bin/activate
torchrun --standalone --nproc_per_node=8 train.py
EOF
# expect-at 4: DC106
