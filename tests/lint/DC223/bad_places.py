import torch
import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler


def gathered(tensor):
    parts = [torch.zeros_like(tensor) for _ in range(dist.get_rank())]
    dist.all_gather(parts, tensor)  # expect: DC223
    names = [None] * dist.get_rank()
    dist.all_gather_object(names, "a")  # expect: DC223
    return parts, names


def main(data, tensor):
    dist.init_process_group("nccl")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    one = DistributedSampler(data, num_replicas=rank, rank=rank)  # expect: DC223
    two = DistributedSampler(data, num_replicas=world_size, rank=world_size)  # expect: DC223
    print(rank, one, two, gathered(tensor))
    dist.destroy_process_group()
