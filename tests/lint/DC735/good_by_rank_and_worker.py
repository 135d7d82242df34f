import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from torch.utils.data import IterableDataset, get_worker_info
def setup():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    return dist.get_rank(), dist.get_world_size(), torch.device("cuda", local_rank)
class Net(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, 10))

    def forward(self, x):
        return self.body(x)

class Lines(IterableDataset):
    def __init__(self, path, rank, world_size):
        self.path, self.rank, self.world_size = path, rank, world_size

    def __iter__(self):
        info = get_worker_info()
        workers = info.num_workers if info else 1
        index = self.rank * workers + (info.id if info else 0)
        with open(self.path) as handle:
            for number, line in enumerate(handle):
                if number % (self.world_size * workers) == index:
                    yield torch.tensor([float(v) for v in line.split()])


def main():
    rank, world_size, device = setup()
    loader = DataLoader(Lines("train.txt", rank, world_size), batch_size=8, num_workers=4)
    model = DDP(Net().to(device), device_ids=[device.index])
    for step, x in zip(range(1000), loader):
        model(x.to(device)).mean().backward()
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
