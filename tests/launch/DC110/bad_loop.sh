for h in gpu1 gpu2; do
  ssh $h "export NCCL_IB_HCAS=mlx5_0; cd /x; torchrun --nnodes=2 --nproc_per_node=8 --rdzv_id=a --rdzv_backend=c10d --rdzv_endpoint=gpu1:29400 train.py" &  # expect: DC110
done
wait
