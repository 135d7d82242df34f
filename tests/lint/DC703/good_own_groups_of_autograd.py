"""Collectives that autograd follows, each in the group of its own ranks."""

import os

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as dist_nn

if __name__ == "__main__":
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    first, second = dist.new_group([0, 1]), dist.new_group([2, 3])
    features = torch.ones(4)
    if rank < 2:
        total = dist_nn.broadcast(features, 0, first)  # expect: DC760
    else:
        total = dist_nn.gather(features, 2, second)  # expect: DC760
    print(total)
    dist.destroy_process_group()
