import os

import torch
import torch.distributed as dist
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
        return self.norm()

    def norm(self):
        return self.net.head.weight.norm()  # expect: DC768


def main(data):
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    trainer = Trainer(local_rank)
    for batch in data:
        trainer.step(batch)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(torch.rand(4, 4, 4))
