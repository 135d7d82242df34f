CUDA_VISIBLE_DEVICES=2,3 deepspeed train.py --deepspeed ds.json
deepspeed --include localhost:2,3 train.py --deepspeed ds.json
