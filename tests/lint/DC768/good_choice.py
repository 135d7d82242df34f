import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(4, 4)
        self.width = 4

    def forward(self, x):
        return self.head(x)


def main(data):
    several = "RANK" in os.environ
    net = Net()
    width = net.width
    if several:
        dist.init_process_group("nccl")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        net = DDP(net.cuda())
    for batch in data:
        net(batch).sum().backward()
    head = net.module.head if several else net.head
    try:
        print(net.width)
    except AttributeError:
        print(width)
    net.note = "trained"
    print(net.note, head, net.device_ids, net.gradient_as_bucket_view)


if __name__ == "__main__":
    main(torch.rand(4, 4, 4))
