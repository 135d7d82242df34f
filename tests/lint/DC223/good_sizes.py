import torch
import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler


def mean(total):
    dist.all_reduce(total)
    return total / dist.get_world_size()


def gathered(tensor):
    parts = [torch.zeros_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    names = [None] * dist.get_world_size()
    dist.all_gather_object(names, "a")
    return parts, names


def main(data, tensor, batch_size):
    dist.init_process_group("nccl")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    sampler = DistributedSampler(data, num_replicas=world_size, rank=rank)
    share = batch_size // world_size
    print(rank, sampler, gathered(tensor), mean(tensor), share)
    dist.destroy_process_group()
