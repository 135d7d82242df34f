import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.tensorboard import SummaryWriter


class Trainer:
    def __init__(self, folder="runs"):
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.writer = SummaryWriter(folder)  # expect: DC721=info
        self.model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[self.local_rank])

    def fit(self):
        for step in range(100):
            loss = self.model(torch.randn(4, 8, device="cuda")).sum()
            loss.backward()
            self.writer.add_scalar("loss", loss.item(), step)


if __name__ == "__main__":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    Trainer().fit()
    dist.destroy_process_group()
