import torch
import torch.distributed as dist


def get_rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def is_first() -> bool:
    return get_rank() == 0


def synchronize() -> None:
    if dist.is_initialized() and dist.get_world_size() > 1:
        dist.barrier()


def gather_losses(loss: float) -> list:
    out = [None for _ in range(dist.get_world_size())]
    dist.all_gather_object(out, loss)
    return out
