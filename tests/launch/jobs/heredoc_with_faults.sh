#!/bin/bash
# expect-at 10: DC804
# Writes nothing: the job comes over standard input.
sbatch <<'EOF'
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
srun torchrun --nnodes=3 --nproc_per_node=8 --rdzv_id=$SLURM_JOB_ID --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29400 train.py
EOF
cat > example.sh <<'EOF'
torchrun --nnodes=2 train.py --nproc_per_node=8
export NCCL_SOCKET_IFNAMES=eth0
EOF
