import torch
import torch.distributed as dist


def is_main() -> bool:
    return not dist.is_initialized() or dist.get_rank() == 0


def reduce_mean(value: torch.Tensor) -> torch.Tensor:
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return value
    value = value.clone()
    dist.all_reduce(value)
    return value / dist.get_world_size()


def report(text: str) -> None:
    if is_main():
        print(text)
