import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Wrapper(DistributedDataParallel):
    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.module, name)


class Net(torch.nn.Module):
    def forward(self, x):
        return x * 2

    def generate(self, x):
        return self(x).argmax(-1)


def main(data):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = Wrapper(Net().cuda())
    print(dist.get_rank(), model.generate(data[0]))
    plain = DistributedDataParallel(Net().cuda())
    plain.generate = plain.module.generate
    print(plain.generate(data[0]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(torch.rand(4, 4, 4))
