# Four agents of two GPUs each on two machines: torchrun is told so.
srun --nodes=2 --ntasks=4 --ntasks-per-node=2 --gpus-per-task=2 torchrun --nnodes=4 --nproc_per_node=2 --rdzv_id=$SLURM_JOB_ID --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29400 train.py
