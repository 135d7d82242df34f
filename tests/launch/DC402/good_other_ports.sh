export TENSORBOARD_PORT=50001
ssh -p 2222 -L 40001:localhost:40001 gpu1 hostname
python serve.py --port 48000
torchrun --standalone --nproc_per_node=8 train.py
