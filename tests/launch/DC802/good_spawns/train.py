import os

import torch.distributed as dist
import torch.multiprocessing as mp


def worker(index, count):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12355"
    dist.init_process_group("nccl", rank=index, world_size=count)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, nprocs=4, args=(4,))
