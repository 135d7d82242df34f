import os
import time

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size
SIZE = 16_000_000


def main():
    rank, _ = init_distributed()
    weight = torch.full((SIZE,), 1.0 if rank == 0 else 0.0)
    dist.barrier()
    if rank == 1:
        time.sleep(0.5)
    work = dist.broadcast(weight, src=0, async_op=True)
    work.wait()
    if rank == 1:
        print(f"weight {weight[-1].item()}")
    if rank == 0:
        weight.mul_(3.0)  # the next update
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
