import os
import queue
import threading

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
    results = queue.Queue()
    mp.spawn(fn=worker, args=(2, results), nprocs=2)  # expect: DC605
    lock = threading.Lock()
    mp.start_processes(worker, args=(2, {"lock": lock}), nprocs=2, start_method="spawn")  # expect: DC605


if __name__ == "__main__":
    main()
