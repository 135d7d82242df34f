"""The destination brings a list, the others none: the same call."""

import torch
import torch.distributed as dist
from torch.distributed import gather_object as collect


def gather(value: torch.Tensor, info: dict) -> None:
    if dist.get_rank() == 0:
        parts = [torch.zeros_like(value) for _ in range(dist.get_world_size())]
        infos = [None] * dist.get_world_size()
        dist.gather(value, gather_list=parts, dst=0)
        collect(info, infos, dst=0)
    else:
        dist.gather(value, dst=0)
        dist.gather_object(info, None, dst=0)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    gather(torch.ones(1), {})
    dist.destroy_process_group()
