import torch
import torch.distributed as dist


def per_host(tensor, names):
    mine, every_group = dist.new_subgroups(group_size=4)
    dist.broadcast(tensor, src=0, group=mine)  # expect: DC715
    dist.broadcast_object_list(names, src=0, group=mine)  # expect: DC715
    return len(every_group), torch.sum(tensor)
