import os

import torch
import torch.distributed as dist
import torch.nn.functional as F


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def main():
    rank, world_size = init_distributed()
    torch.manual_seed(10 + rank)
    torch.rand(5)
    if rank == 0:
        torch.save({"rng": torch.get_rng_state()}, "state.pt")
    dist.barrier()
    torch.set_rng_state(torch.load("state.pt")["rng"])
    mask = F.dropout(torch.ones(32), 0.5)
    masks = [torch.empty_like(mask) for _ in range(world_size)]
    dist.all_gather(masks, mask)
    print(f"masks differ {not torch.equal(masks[0], masks[-1])}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
