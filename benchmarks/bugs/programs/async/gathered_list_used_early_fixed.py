import os
import time

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def longest(length):
    mine = torch.tensor([length])
    lengths = [torch.zeros(1, dtype=torch.long) for _ in range(dist.get_world_size())]
    work = dist.all_gather(lengths, mine, async_op=True)
    work.wait()
    result = max(int(each) for each in lengths)
    return result


def main():
    rank, _ = init_distributed()
    dist.barrier()
    if rank == 0:
        time.sleep(0.5)
    sentence = torch.arange(10 if rank else 20)
    limit = longest(len(sentence))
    print(f"rank {rank} longest {limit}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
