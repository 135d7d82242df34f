export CUDA_VISIBLE_DEVICES=0,1,2,3
nohup python -m torch.distributed.launch --nproc_per_node=4 --master_port=29501 train.py --cfg r50.yaml >> r50.out & # expect: DC117 DC801
