"""A plain scaler of both spellings steps the optimizer of a model in FSDP1."""

import torch
import torch.distributed as dist
from torch.cuda.amp import GradScaler
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def train(loader, local_rank):
    model = FSDP(torch.nn.Linear(2, 2), device_id=local_rank, use_orig_params=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    scaler = GradScaler()  # expect: DC769
    for batch in loader:
        optimizer.zero_grad()
        with torch.amp.autocast("cuda"):
            loss = model(batch).sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()


class Trainer:
    def __init__(self, net):
        self.model = FSDP(net)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda", enabled=True)  # expect: DC769

    def step(self, batch):
        self.scaler.scale(self.model(batch).sum()).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()


if __name__ == "__main__":
    dist.init_process_group("nccl")
    local_rank = dist.get_node_local_rank()
    torch.cuda.set_device(local_rank)
    train([torch.rand(2, 2)], local_rank)
    Trainer(torch.nn.Linear(2, 2).cuda()).step(torch.rand(2, 2))
    dist.destroy_process_group()
