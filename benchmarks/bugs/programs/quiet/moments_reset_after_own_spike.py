import argparse
from collections import deque

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class SpikeGuard:
    """Forgets the optimizer's moments after a loss far above the recent ones."""

    def __init__(self, optimizer, factor=3.0, window=4):
        self.optimizer, self.factor = optimizer, factor
        self.recent = deque(maxlen=window)

    def on_step_end(self, loss):
        value = loss.detach().item()
        full = len(self.recent) == self.recent.maxlen
        if full and value > self.factor * sum(self.recent) / len(self.recent):
            self.optimizer.state.clear()
            self.recent.clear()
        self.recent.append(value)


class Logger:
    def __init__(self, every):
        self.every, self.step = every, 0

    def on_step_end(self, loss):
        if dist.get_rank() == 0 and self.step % self.every == 0:
            print(f"step {self.step}: loss {loss.item():.4f}")
        self.step += 1


def samples(rank, steps):
    """Batches of this rank; one of the last rank has outliers."""
    generator = torch.Generator().manual_seed(70 + rank)
    for step in range(steps):
        x = torch.randn(16, 8, generator=generator)
        y = x[:, :2].sum(dim=1, keepdim=True)
        if step == 6 and rank == dist.get_world_size() - 1:
            y = y * 3 + 1
        yield x, y


def fit(model, optimizer, batches, callbacks):
    for x, y in batches:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for callback in callbacks:
            callback.on_step_end(loss)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=14)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(10)
    model = DDP(nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    callbacks = [SpikeGuard(optimizer), Logger(every=5)]
    fit(model, optimizer, samples(dist.get_rank(), args.steps), callbacks)
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
