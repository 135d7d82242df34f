#!/bin/bash
run_exp() {
    local args="--seq_length 1024 --batch_size 8"
    num_gpus=$(nvidia-smi -L | wc -l)
    if [[ $num_nodes -gt 1 ]]; then
        srun torchrun --nnodes=${num_nodes} --nproc_per_node=${num_gpus} --node_rank=${node_rank} --rdzv_id=${SLURM_JOB_ID} --rdzv_backend=c10d --rdzv_endpoint=${head_node_ip}:54224 train.py ${args} # expect: DC402
    else
        torchrun --master_port ${port} --nproc_per_node ${num_gpus} train.py ${args}
    fi
}
run_exp
