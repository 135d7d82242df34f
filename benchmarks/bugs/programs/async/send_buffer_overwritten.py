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
    dist.barrier()
    buffer = torch.full((SIZE,), 1.0)
    if rank == 0:
        request = dist.isend(buffer, dst=1)
        buffer.fill_(2.0)
        request.wait()
        dist.send(buffer, dst=1)
    else:
        time.sleep(0.5)
        first, second = torch.empty(SIZE), torch.empty(SIZE)
        dist.recv(first, src=0)
        dist.recv(second, src=0)
        print(f"received {first[-1].item()} then {second[-1].item()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
