import torch.distributed as dist


def start(options):
    dist.init_process_group("nccl", init_method=options.meet_at, world_size=options.many, rank=options.number)
