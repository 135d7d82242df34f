import torch.distributed as dist


def share(tensor):
    pair = dist.new_group([0, 1])
    others = dist.new_group([2, 3])
    if dist.get_rank() in (0, 1):
        dist.broadcast(tensor, src=0, group=pair)
        dist.reduce(tensor, dst=1, group=pair)
    else:
        dist.broadcast(tensor, src=2, group=others)
