import os

import torch
import torch.distributed as dist


def main(folder, step):
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        os.makedirs(folder, exist_ok=True)
    state = None
    if step > 0:
        state = torch.load(os.path.join(folder, f"{step}.pt"), map_location="cpu")
    return state


main("out", 3)
