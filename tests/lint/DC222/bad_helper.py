import torch
import torch.distributed as dist


def is_main_process() -> bool:
    return dist.get_rank() == 0


def save(model: torch.nn.Module, path: str) -> None:
    if is_main_process:  # expect: DC222
        print(path)
    if path and not is_main_process:  # expect: DC222
        return
