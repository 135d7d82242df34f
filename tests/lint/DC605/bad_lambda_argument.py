import os

import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank: int, world_size: int, extra: object) -> None:
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    dist.barrier()
    print(rank, extra)
    dist.destroy_process_group()


def main() -> None:
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29511")
    mp.spawn(worker, args=(2, lambda value: value + 1), nprocs=2)  # expect: DC605


if __name__ == "__main__":
    main()
