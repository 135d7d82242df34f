"""The arms differ, and every rank takes the same one."""

import os

import torch
import torch.distributed as dist


def synchronize(grad: torch.Tensor, sharded: bool) -> None:
    if sharded:
        out = torch.empty(grad.numel() // dist.get_world_size())
        dist.reduce_scatter_tensor(out, grad)
    else:
        dist.all_reduce(grad)
    if dist.get_world_size() > 8:
        dist.barrier()
    else:
        dist.all_reduce(grad)
    if int(os.environ.get("RANK", "-1")) != -1:
        dist.all_reduce(grad)
        dist.barrier()
    else:
        print("alone")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    synchronize(torch.ones(8), False)
    dist.destroy_process_group()
