torchrun --standalone --nproc_per_node=8 train.py --nodes 2 --local_rank_from_env --num_workers 8 --master
torchrun --standalone --nproc_per_node=8 -m accelerate_bench.run --backend nccl --standalone-eval
python submit.py --nnodes 2 --nproc_per_node 8 --partition gpu
python train.py --num_processes 8
