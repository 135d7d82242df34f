import torch.distributed as dist


def share(tensor):
    workers = dist.new_group(ranks=[4, 5, 6, 7])
    dist.broadcast(tensor, 0, workers)  # expect: DC715
    dist.reduce(tensor, dst=1, group=workers)  # expect: DC715
