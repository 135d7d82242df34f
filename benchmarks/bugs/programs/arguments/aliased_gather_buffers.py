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
    norm = torch.tensor([2.0 + 5.0 * rank])
    norms = [torch.zeros(1)] * world_size
    dist.all_gather(norms, norm)
    values = [part.item() for part in norms]
    if rank == 0:
        print(f"norms {values} spread {max(values) - min(values)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
