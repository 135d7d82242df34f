"""Who is in the group is not known here."""
import torch.distributed as dist


def share(batch, group, args):
    dist.broadcast(batch, src=0, group=group)
    leaders = dist.new_group(args.leaders)
    dist.broadcast(batch, src=0, group=leaders)
    first = dist.new_group([0, *args.others])
    dist.broadcast(batch, src=0, group=first)
