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
    dist.all_reduce(low, op=dist.ReduceOp.MIN)
    dist.all_reduce(high, op=dist.ReduceOp.MAX)
    scaled = (values - low) / (high - low)
    print(f"rank {rank} range {(high - low).item()} first {scaled[0].item():.3f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
