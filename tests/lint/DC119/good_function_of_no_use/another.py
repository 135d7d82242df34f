import torch.distributed as dist


def start_quietly(rank, size):
    dist.init_process_group("gloo", rank=rank, world_size=size)


start_quietly(0, 1)
