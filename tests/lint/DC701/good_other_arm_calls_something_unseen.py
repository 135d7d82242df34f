"""The other ranks wait in a module that is not part of this project."""

import torch.distributed as dist
from cluster_tools import wait_for_leader


def prepare() -> None:
    if dist.get_rank() == 0:
        print("preparing")
        dist.barrier()
    else:
        wait_for_leader()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    prepare()
    dist.destroy_process_group()
