import os

import torch.distributed as dist


def write_log(folder: str) -> None:
    rank = dist.get_rank()
    if rank == 0:
        os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"rank-{rank}.log"), "w") as file:  # expect: DC724
        file.write("begin\n")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    write_log("logs")
    dist.destroy_process_group()
