import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def main():
    rank, world_size = init_distributed()
    values = torch.tensor([1.0, 4.0]) if rank == 0 else torch.tensor([7.0, 10.0])
    low, high = values.min().clone(), values.max().clone()
    op = dist.ReduceOp.MIN if rank == 0 else dist.ReduceOp.MAX
    extreme = low if rank == 0 else high
    dist.all_reduce(extreme, op=op)
    low = extreme if rank == 0 else low
    high = extreme if rank != 0 else high
    scaled = (values - low) / (high - low)
    print(f"rank {rank} range {(high - low).item()} first {scaled[0].item():.3f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
