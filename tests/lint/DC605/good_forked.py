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
    def run(rank: int) -> None:
        worker(rank, 2, None)

    mp.start_processes(run, nprocs=2, start_method="fork")


if __name__ == "__main__":
    main()
