import torch.distributed as dist

RANK = dist.get_rank()  # expect: DC742


def info(text):
    if RANK == 0:
        print(text)
