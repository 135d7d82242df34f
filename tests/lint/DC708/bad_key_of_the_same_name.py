"""A key of the checkpoint has the name of the attribute; no ``setattr`` assigns that."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Average:
    def __init__(self, model):
        self.model = model

    def load_state_dict(self, state):
        self.model.load_state_dict(state)


class Trainer:
    def __init__(self, model):
        self.model = DistributedDataParallel(model)
        if dist.get_rank() == 0:
            self.ema = Average(model)

    def load(self, path):
        state = torch.load(path, map_location="cpu")
        self.model.load_state_dict(state["model"])
        self.ema.load_state_dict(state["ema"])  # expect: DC708=warning


def main(model):
    dist.init_process_group("nccl")
    Trainer(model).load("last.pt")
    dist.destroy_process_group()
