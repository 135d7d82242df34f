for i in 1 2 3 4; do
  ssh node$i "cd /x && torchrun --nnodes=4 --node_rank=0 --nproc_per_node=8 --master_addr=node1 --master_port=29500 train.py" &  # expect: DC805
done
wait
