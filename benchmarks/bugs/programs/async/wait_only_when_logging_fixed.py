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
    counter = 0.0
    for step in range(4):
        dist.barrier()
        if rank == 1:
            time.sleep(0.2)
        tokens = torch.tensor([1.0 if rank == 0 else 2.0])
        work = dist.all_reduce(tokens, async_op=True)
        work.wait()
        counter += tokens.item()
    print(f"rank {rank} counter {counter}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
