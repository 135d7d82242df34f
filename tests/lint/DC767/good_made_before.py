import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


def worker(rank, world_size, port, folder):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    torch.cuda.set_device(rank)
    model = DDP(torch.nn.Linear(4, 4).cuda())
    os.makedirs(folder, exist_ok=True)
    torch.save(model.state_dict(), os.path.join(folder, f"{rank}.pt"))
    dist.destroy_process_group()


def main():
    now = time.time()
    mp.spawn(worker, args=(2, 20000 + int(now) % 10000, f"runs/{int(now)}"), nprocs=2)


if __name__ == "__main__":
    main()
