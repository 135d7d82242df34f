
#!/bin/bash  # expect: DC814
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
srun torchrun --standalone --nproc-per-node=8 train.py
