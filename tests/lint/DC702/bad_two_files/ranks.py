import torch.distributed as dist


def main_only() -> bool:
    return dist.get_rank() == 0


def barrier() -> None:
    dist.barrier()
