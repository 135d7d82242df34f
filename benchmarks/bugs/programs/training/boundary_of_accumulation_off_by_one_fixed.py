import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ACCUMULATE = 4


def synchronizes(index):
    return (index + 1) % ACCUMULATE == 0


def train(ddp, optimizer, batches):
    for index, (inputs, targets) in enumerate(batches):
        context = contextlib.nullcontext() if synchronizes(index) else ddp.no_sync()
        with context:
            loss = nn.functional.mse_loss(ddp(inputs), targets) / ACCUMULATE
            loss.backward()
        if (index + 1) % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad()
            if dist.get_rank() == 0:
                print(f"batch {index}: {loss.item():.4f}")


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(5)
    ddp = DistributedDataParallel(nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1)))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(20 + dist.get_rank())
    batches = [(torch.randn(8, 6, generator=generator), torch.randn(8, 1, generator=generator)) for _ in range(16)]
    train(ddp, optimizer, batches)
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
