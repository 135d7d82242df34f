"""Only one process of each host joins the group at all: among those, the calls are complete."""

import os

import torch
import torch.distributed as dist


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    if local_rank == 0:
        dist.init_process_group("gloo", rank=int(os.environ["GROUP_RANK"]), world_size=int(os.environ["NODES"]))
    load = torch.tensor([float(os.getloadavg()[0])])
    if local_rank == 0:
        dist.all_reduce(load)
        print(load)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
