import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)

    def train(self, mode=True):
        return super().train(mode)

    def generate(self, x):
        return self.layer(x).argmax(-1)


def main(data):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(Net().cuda())
    model.train()
    for batch in data:
        model(batch).sum().backward()
    print(dist.get_rank(), model.module.generate(data[0]))
    if hasattr(model, "generate"):
        print(model.generate(data[0]))
    model = model.module
    print(model.generate(data[0]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(torch.rand(4, 4, 4))
