import os
import time

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def main():
    rank, _ = init_distributed()
    dist.barrier()
    if rank == 1:
        time.sleep(0.7)  # a slow loader
    loss = torch.tensor([1.0 + rank])
    work = dist.all_reduce(loss, async_op=True)
    work.wait()
    print(f"rank {rank} total {loss.item()}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
