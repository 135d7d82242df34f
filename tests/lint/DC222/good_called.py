import torch.distributed as dist


def is_main_process() -> bool:
    return dist.get_rank() == 0


def log(text: str) -> None:
    if is_main_process():
        print(text)
    if dist.is_initialized() and not is_main_process():
        return
