import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)
        self.optimizer = None

    def forward(self, batch):
        self.loss = self.layer(batch).mean()
        return self.loss

    def back(self):
        self.loss.backward()


def train(model, optimizer):
    for _ in range(10):
        optimizer.zero_grad()
        model(torch.randn(4, 8).cuda()).backward()
        optimizer.step()


def train_by_methods(model):
    for _ in range(10):
        model.forward(torch.randn(4, 8).cuda())
        model.optimizer.zero_grad()
        model.back()
        model.optimizer.step()


def forgotten(local_rank):
    net = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Linear(8, 1).cuda())
    if torch.cuda.device_count() > 1:
        model = DistributedDataParallel(net, device_ids=[local_rank])  # expect: DC750=info
    train(net, torch.optim.SGD(net.parameters(), lr=0.1))


def taken_out(local_rank):
    model = Net().cuda()
    model.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model = DistributedDataParallel(model, device_ids=[local_rank])  # expect: DC750=info
    model = model.module
    train_by_methods(model)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    forgotten(local_rank)
    taken_out(local_rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
