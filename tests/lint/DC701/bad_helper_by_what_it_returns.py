"""The test hides in a function whose name says nothing; what it returns does."""

import torch
import torch.distributed as dist


def number() -> int:
    if not dist.is_available() or not dist.is_initialized():
        return 0
    return dist.get_rank()


def speaks() -> bool:
    return number() == 0


def log(metrics: dict) -> None:
    if speaks():
        for name, value in metrics.items():
            tensor = torch.tensor([value])
            dist.all_reduce(tensor)  # expect: DC701
            print(name, tensor.item() / dist.get_world_size())


if __name__ == "__main__":
    dist.init_process_group("gloo")
    log({"loss": 0.5})
    dist.destroy_process_group()
