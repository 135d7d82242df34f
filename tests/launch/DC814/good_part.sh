#SBATCH --nodes=1
#SBATCH --ntasks-per-node={{ tasks }}
#SBATCH --mem=${{ memory }}
srun torchrun --standalone --nproc-per-node=8 train.py
