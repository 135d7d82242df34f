"""Nothing here calls the method: code that uses the class does, on each rank."""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Runner:
    def __init__(self, model):
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
        self.network = model.cuda()
        self.model = DDP(self.network, device_ids=[int(os.environ["LOCAL_RANK"])])

    def load(self, path, map_location=None):
        self.network.load_state_dict(torch.load(path, map_location=map_location))  # expect: DC723

    def step(self, batch):
        self.model(batch).sum().backward()

    def close(self):
        dist.destroy_process_group()
