#!/bin/bash
#SBATCH --ntasks-per-node=8
cd "$(dirname "$0")"
meeting="tcp://"
meeting+=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
meeting+=:29611
srun python fit.py --batch 64 --meet-at $meeting
srun python fit.py --batch 64 --meet-at=tcp://head:29611
