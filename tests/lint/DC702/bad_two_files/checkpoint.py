import torch
from ranks import barrier, main_only


def save(state: dict, path: str) -> None:
    if main_only():
        torch.save(state, path)
    else:
        return
    barrier()  # expect: DC702
