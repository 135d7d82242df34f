"""The metric of a library reduces in compute(). Another file makes it."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
from utils import error


class Trainer:
    def __init__(self, model, held_back):
        self.model, self.held_back = model, held_back
        self.error = error().to("cuda")

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        for batch, label in self.held_back:
            self.error.update(self.model(batch.cuda()), label.cuda())
        found = self.error.compute()
        if dist.get_rank() == 0:
            print(found)


def main(held_back):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    rest = DataLoader(held_back, sampler=DistributedSampler(held_back, shuffle=False))
    Trainer(model, rest).validate()
    dist.destroy_process_group()
