import os

import torch
import torch.distributed as dist


def shard(paths: list[str], rank: int, world_size: int) -> list[str]:
    return [path for index, path in enumerate(paths) if index % world_size == rank]


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    paths = sorted(os.listdir("shards"))
    for path in shard(paths, dist.get_rank(), dist.get_world_size()):  # expect: DC519
        total = torch.tensor(float(len(path)), device="cuda")
        dist.all_reduce(total)
        print(total.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
