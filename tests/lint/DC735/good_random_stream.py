import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset


class Noise(IterableDataset):
    def __init__(self, generator):
        self.generator = generator

    def __iter__(self):
        while True:
            yield torch.randn(8, generator=self.generator)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    data = Noise(torch.Generator().manual_seed(dist.get_rank()))
    model = DDP(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    batches = iter(DataLoader(data, batch_size=8))
    for _ in range(100):
        model(next(batches).cuda()).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
