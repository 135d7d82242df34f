#!/bin/bash
cat > job.sbatch <<EOF
#!/bin/bash
#SBATCH --nodes=1
EOF
torchrun --standalone --nproc-per-node=8 train.py
