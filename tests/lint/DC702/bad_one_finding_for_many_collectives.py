"""One exit, one finding: mending the exit mends all that follows."""

import torch
import torch.distributed as dist


def validate(values: list) -> None:
    if dist.get_rank() > 0:
        return
    total = torch.zeros(1)
    for value in values:
        total += value
    dist.all_reduce(total)  # expect: DC702
    dist.barrier()
    print(total)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    validate([torch.ones(1)])
    dist.destroy_process_group()
