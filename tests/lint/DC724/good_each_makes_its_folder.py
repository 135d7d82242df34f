import os

import numpy as np
import torch.distributed as dist


def write(folder: str, names: list) -> None:
    rank = dist.get_rank()
    if rank == 0:
        os.makedirs(folder, exist_ok=True)
    for name in names[rank :: dist.get_world_size()]:
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        np.save(os.path.join(folder, name, "codes.npy"), np.zeros(3))


if __name__ == "__main__":
    dist.init_process_group("gloo")
    write("codes", ["a", "b"])
    dist.destroy_process_group()
