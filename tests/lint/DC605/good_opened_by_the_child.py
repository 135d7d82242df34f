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
    with open("train.log", "w") as log:
        log.write("start\n")
    names = sorted(name for name in os.listdir("."))
    key = lambda name: name.lower()  # noqa: E731
    names.sort(key=key)
    mp.spawn(worker, args=(2, names), nprocs=2)


if __name__ == "__main__":
    main()
