"""The device is synchronized before the tensor is read."""

import torch
import torch.distributed as dist


def reduced(value: torch.Tensor) -> float:
    work = dist.all_reduce(value, async_op=True)
    torch.cuda.synchronize()
    total = value.sum().item()
    work.wait()
    return total


if __name__ == "__main__":
    dist.init_process_group("gloo")
    reduced(torch.ones(4))
    dist.destroy_process_group()
