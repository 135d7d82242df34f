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
    if rank == 0:
        time.sleep(0.6)
        dist.send(torch.full((8,), 4.0), dst=1)
    else:
        activations = torch.zeros(8)
        request = dist.irecv(activations, src=0)
        request.wait()
        mean = activations.mean()
        print(f"mean {mean.item()}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
