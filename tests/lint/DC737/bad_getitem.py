import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler
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

class Cached(Dataset):
    def __init__(self, path):
        self.x = torch.load(path, weights_only=True)
        self.epoch = 0

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        if index == 0:
            dist.barrier()  # expect: DC737
        return self.x[index]


def main():
    rank, world_size, device = setup()
    data = Cached("train.pt")
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data), num_workers=4)
    model = DDP(Net().to(device), device_ids=[device.index])
    for x in loader:
        model(x.to(device)).mean().backward()
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
