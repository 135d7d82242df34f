from torch import distributed as dist


def share(config):
    box = [config]
    dist.broadcast_object_list(box, src=0)  # expect: DC616
    return box[0]


def collect(result, rank, world):
    results = [None] * world if rank == 0 else None
    dist.gather_object(result, results, dst=0)  # expect: DC616
    mine = [None]
    dist.scatter_object_list(mine, results, src=0)  # expect: DC616
    return mine[0]
