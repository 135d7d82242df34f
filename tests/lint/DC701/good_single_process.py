import torch
import torch.distributed as dist


def mean(value: torch.Tensor, rank: int = -1) -> torch.Tensor:
    if rank == -1:
        return value
    if not (dist.is_available() and dist.is_initialized()):
        return value
    dist.all_reduce(value)
    return value / dist.get_world_size()


def mean_or_not(value: torch.Tensor) -> torch.Tensor:
    world_size = dist.get_world_size() if dist.is_initialized() else 1
    if world_size < 2:
        return value
    with torch.no_grad():
        dist.reduce(value, dst=0)
        if dist.get_rank() == 0:
            value /= world_size
    return value


if __name__ == "__main__":
    dist.init_process_group("gloo")
    mean(torch.ones(1), dist.get_rank())
    mean_or_not(torch.ones(1))
    dist.destroy_process_group()
