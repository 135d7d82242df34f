import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(gpu: int, count: int, endpoint: str) -> None:
    torch.cuda.set_device(gpu)
    dist.init_process_group("nccl", init_method=endpoint, rank=gpu, world_size=count)
    total = torch.ones(1, device=f"cuda:{gpu}")
    if gpu == 0:
        dist.all_reduce(total)  # expect: DC701
        print(total)
    dist.destroy_process_group()


if __name__ == "__main__":
    gpus = torch.cuda.device_count()
    mp.spawn(worker, nprocs=gpus, args=(gpus, os.environ["RENDEZVOUS"]))
