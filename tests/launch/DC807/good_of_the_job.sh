srun -N2 --ntasks-per-node=1 bash -c 'torchrun --nnodes=2 --nproc_per_node=8 --rdzv_id=$SLURM_JOB_ID --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29400 train.py'
torchrun --nnodes=2 --nproc_per_node=8 --rdzv_id=imagenet-7 --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29400 train.py
