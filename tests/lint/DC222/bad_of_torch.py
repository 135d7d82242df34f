import torch.distributed as dist


def log(text: str) -> None:
    if not dist.is_initialized or dist.get_rank() == 0:  # expect: DC222
        print(text)
