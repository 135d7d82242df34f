import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, RandomSampler, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Trainer:
    def __init__(self, data, distributed):
        self.sampler = DistributedSampler(data) if distributed else RandomSampler(data)
        self.loader = DataLoader(data, batch_size=32, sampler=self.sampler)
        self.model = DDP(torch.nn.Linear(8, 1).cuda())

    def before_epoch(self, epoch):
        set_epoch = getattr(self.sampler, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch)

    def fit(self, epochs):
        for epoch in range(epochs):
            self.before_epoch(epoch)
            for (batch,) in self.loader:
                self.model(batch.cuda()).sum().backward()


if __name__ == "__main__":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    Trainer(TensorDataset(torch.randn(1000, 8)), True).fit(10)
    dist.destroy_process_group()
