import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(index, count):
    dist.init_process_group("nccl", rank=index, world_size=count)
    torch.cuda.set_device(index)
    dist.destroy_process_group()


def main():
    if "LOCAL_RANK" in os.environ:
        work(int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"]))
    else:
        os.environ.setdefault("MASTER_ADDR", "localhost")
        os.environ.setdefault("MASTER_PORT", "12355")
        mp.spawn(work, nprocs=torch.cuda.device_count(), args=(torch.cuda.device_count(),))


if __name__ == "__main__":
    main()
