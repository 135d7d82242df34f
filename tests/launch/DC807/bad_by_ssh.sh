for h in gpu1 gpu2; do
  ssh $h 'torchrun --nnodes=2 --nproc_per_node=8 --rdzv_id=$(uuidgen) --rdzv_backend=c10d --rdzv_endpoint=gpu1:29400 /data/train.py' & # expect: DC807
done
wait
