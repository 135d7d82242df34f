"""The group of everyone: group ranks are global ranks."""
import torch.distributed as dist


def share(tensor):
    dist.broadcast(tensor, src=0, group=dist.group.WORLD)
    dist.broadcast(tensor, src=0, group=None)
    everyone = dist.new_group()
    dist.broadcast(tensor, src=0, group=everyone)
    on_host = dist.new_group(backend="gloo")
    dist.reduce(tensor, dst=0, group=on_host)
    listed = dist.new_group(list(range(dist.get_world_size())))
    dist.broadcast(tensor, 0, listed)
