"""The module that went into DDP can be called alone: it does not know of the wrapper."""

import copy

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main() -> None:
    dist.init_process_group("gloo")
    network = torch.nn.BatchNorm1d(8)
    average = copy.deepcopy(network)
    wrapped = DDP(network)
    batch = torch.rand(4, 8)
    wrapped(batch).sum().backward()
    if dist.get_rank() == 0:
        with torch.no_grad():
            print(network(batch).mean(), average(batch).mean())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
