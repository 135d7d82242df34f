import torch.distributed as dist


def is_main_process() -> bool:
    return dist.get_rank() == 0


def log(text: str) -> None:
    main_process = is_main_process()
    if main_process:
        print(text)
