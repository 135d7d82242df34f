import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Trainer:
    def __init__(self, net, path):
        self.path = path
        self.epoch = 0
        self.model = net.cuda()
        if os.path.exists(path):
            self.load()
        self.model = DDP(self.model)

    def load(self):
        snapshot = torch.load(self.path, map_location="cpu")
        self.model.load_state_dict(snapshot["MODEL"])  # expect: DC614=warning
        self.epoch = snapshot["EPOCH"]

    def save(self):
        torch.save({"MODEL": self.model.state_dict(), "EPOCH": self.epoch}, self.path)

    def train(self, loader):
        for batch in loader:
            self.model(batch.cuda()).sum().backward()
        if dist.get_rank() == 0:
            self.save()


def main(loader):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    Trainer(torch.nn.Linear(4, 4), "snapshot.pt").train(loader)
    dist.destroy_process_group()
