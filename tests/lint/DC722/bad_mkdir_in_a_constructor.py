import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Trainer:
    def __init__(self, log_dir):
        self.log_dir = log_dir
        if not os.path.isdir(self.log_dir):
            os.mkdir(self.log_dir)  # expect: DC722
        self.model = DDP(torch.nn.Linear(4, 4).cuda())

    def step(self):
        self.model(torch.ones(1, 4, device="cuda")).sum().backward()


if __name__ == "__main__":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    Trainer("logs").step()
    dist.destroy_process_group()
