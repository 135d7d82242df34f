for h in gpu1 gpu2; do
  ssh $h "cd /x && RANK=0 WORLD_SIZE=2 MASTER_ADDR=gpu1 MASTER_PORT=29500 python train.py" &  # expect: DC809
done
wait
