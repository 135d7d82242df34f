import os
import time
from datetime import datetime

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


class Run:
    def __init__(self, name):
        self.folder = os.path.join("runs", name + "-" + datetime.now().strftime("%Y%m%d-%H%M%S"))

    def prepare(self):
        os.makedirs(self.folder, exist_ok=True)  # expect: DC767=info


def worker(rank, world_size):
    port = 20000 + int(time.time()) % 10000
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = str(port)  # expect: DC767
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    torch.cuda.set_device(rank)
    model = DDP(torch.nn.Linear(4, 4).cuda())
    run = Run("linear")
    run.prepare()
    torch.save(model.state_dict(), os.path.join(run.folder, f"{rank}.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, args=(2,), nprocs=2)
