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
class Pairs(Dataset):
    def __init__(self, path):
        self.x, self.y = torch.load(path, weights_only=True)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


def make_loader(path, batch_size=64):
    data = Pairs(path)
    sampler = DistributedSampler(data)
    return DataLoader(data, batch_size=batch_size, sampler=sampler, num_workers=4, drop_last=True), sampler

def contrast(a, b, rank, world_size):
    parts = [torch.empty_like(b) for _ in range(world_size)]
    dist.all_gather(parts, b)
    parts[rank] = b
    keys = torch.cat(parts)
    logits = a @ keys.t()
    labels = torch.arange(len(a), device=a.device) + rank * len(a)
    return F.cross_entropy(logits, labels)


def main():
    rank, world_size, device = setup()
    loader, sampler = make_loader("train.pt")
    model = DDP(Net().to(device), device_ids=[device.index])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for x, y in loader:
        both = model(torch.cat([x, y]).to(device))
        a, b = both.chunk(2)
        loss = contrast(a, b, rank, world_size)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
