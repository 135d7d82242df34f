import torch
import torch.distributed as dist


def is_main_process() -> bool:
    return dist.get_rank() == 0


def save_on_master(*args, **kwargs) -> None:
    if is_main_process():
        torch.save(*args, **kwargs)


def resume(path, model):
    found = torch.load(path, map_location="cpu")  # expect: DC611
    model.load_state_dict(found["model"])
    return found["epoch"]
