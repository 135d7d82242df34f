import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


class Net(nn.Module):
    def __init__(self, features=8, hidden=16, classes=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.head(self.body(x))


def half_precision_hook(group, bucket):
    """Send gradients in half precision."""
    size = dist.get_world_size(group)
    compressed = bucket.buffer().to(torch.bfloat16) / size
    work = dist.all_reduce(compressed, group=group, async_op=True)

    def decompress(future):
        return future.value()[0].to(bucket.buffer().dtype)

    return work.get_future().then(decompress)


def main():
    rank, _ = init_distributed()
    torch.manual_seed(0)
    model = DDP(Net())
    model.register_comm_hook(dist.group.WORLD, half_precision_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for _ in range(3):
        loss = F.cross_entropy(model(torch.randn(4, 8)), torch.randint(4, (4,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
