"""Making a device fails for no index; all work is done on another one."""

import os

import torch
import torch.distributed as dist


class Trainer:
    def __init__(self, nodes):
        self.nnodes = nodes
        self.rank = int(os.environ.get("RANK", 0))
        self.device = torch.device("cuda:{}".format(self.rank))

    def step(self, model, batch, local_rank):
        unused = torch.device("cuda", self.rank)
        return model(batch.to(torch.device("cuda", local_rank)))


def run(model, batch):
    dist.init_process_group("nccl")
    return Trainer(2).step(model, batch, int(os.environ["LOCAL_RANK"])).to(batch.device)
