import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Encoder(nn.Module):
    def __init__(self, width, memory):
        super().__init__()
        self.memory = memory
        self.layers = nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        if x.shape[0] * x.shape[1] > self.memory:
            # what a device does that lacks the memory for so many frames
            raise torch.OutOfMemoryError(f"tried to allocate {x.numel() * 4} bytes")
        return self.layers(x).mean(dim=1)


class Trainer:
    def __init__(self, model, lr):
        self.model = DDP(model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)

    def backward(self, x, share):
        loss = self.model(x).square().mean() * share
        loss.backward()
        return loss.item()

    def halves(self, x):
        first, second = x.chunk(2)
        with self.model.no_sync():
            loss = self.backward(first, len(first) / len(x))
        return loss + self.backward(second, len(second) / len(x))

    def step(self, x):
        self.optimizer.zero_grad()
        try:
            loss = self.backward(x, 1.0)
        except torch.OutOfMemoryError:
            loss = self.halves(x)
        self.optimizer.step()
        return loss


def batches(rank, steps, batch_size):
    generator = torch.Generator().manual_seed(30 + rank)
    for step in range(steps):
        # one long recording among the data of rank 1
        frames = 40 if (rank, step) == (1, 3) else 12
        yield torch.randn(batch_size, frames, 4, generator=generator)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--memory", type=int, default=100)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    trainer = Trainer(Encoder(4, args.memory), lr=0.1)
    total = 0.0
    for x in batches(rank, args.steps, args.batch_size):
        total += trainer.step(x)
    dist.barrier()
    print(f"rank {rank}: loss {total / args.steps:.4f}")
    del trainer
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
