import torch.distributed as dist

RANK = dist.get_rank()


def info(text):
    if RANK == 0:
        print(text)
