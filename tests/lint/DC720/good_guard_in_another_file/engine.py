import os

import torch
import torch.distributed as dist
from storage import dump


class Engine:
    def __init__(self, model, folder):
        self.model = model
        self.folder = folder
        self.is_master = dist.get_rank() == 0

    def step(self, batch):
        self.model(batch).sum().backward()

    def write(self, epoch):
        dump(self.model.module, os.path.join(self.folder, f"{epoch}.pt"))
