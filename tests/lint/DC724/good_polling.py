import os
import time

import torch
import torch.distributed as dist


def fetch(path: str) -> dict:
    if dist.get_rank() == 0:
        torch.save({"step": 1}, path + ".part")
        os.replace(path + ".part", path)
    while not os.path.exists(path):
        time.sleep(0.5)
    return torch.load(path, map_location="cpu")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    fetch("shared.pt")
    dist.destroy_process_group()
