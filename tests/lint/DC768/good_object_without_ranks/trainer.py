import torch
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.head(x)


class Trainer:
    def __init__(self, local_rank):
        self.net = Net().cuda()
        if local_rank != -1:
            self.net = DDP(self.net, device_ids=[local_rank])

    def step(self, batch):
        self.net(batch).sum().backward()

    def norm(self):
        return self.net.head.weight.norm()
