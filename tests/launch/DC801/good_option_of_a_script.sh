python main.py --launcher torch.distributed.launch --world-size 1
