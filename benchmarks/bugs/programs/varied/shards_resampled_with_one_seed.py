import argparse
import random

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset


def read_shard(number, size):
    """The samples of one archive."""
    generator = torch.Generator().manual_seed(1000 + number)
    x = torch.randn(size, 7, generator=generator)
    return list(zip(x, x[:, :2].sum(dim=1, keepdim=True)))


class Resampled(IterableDataset):
    """An endless stream: archives are drawn with replacement, and their samples are shuffled in a buffer."""

    def __init__(self, shards, seed, buffer_size=16):
        self.shards, self.seed, self.buffer_size = shards, seed, buffer_size

    def shards_of_this_rank(self):
        return list(range(self.shards))

    def __iter__(self):
        draw = random.Random(self.seed)
        shards, buffer = self.shards_of_this_rank(), []
        while True:
            buffer.extend(read_shard(draw.choice(shards), 12))
            draw.shuffle(buffer)
            while len(buffer) > self.buffer_size:
                yield buffer.pop()


def steps_of(loader, count):
    for batch, _ in zip(loader, range(count)):
        yield batch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--batch-size", type=int, default=6)
    parser.add_argument("--shards", type=int, default=12)
    parser.add_argument("--seed", type=int, default=17)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    loader = DataLoader(Resampled(args.shards, args.seed), batch_size=args.batch_size)
    model = DDP(nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    mean = None
    for step, (x, y) in enumerate(steps_of(loader, args.steps)):
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.item() if mean is None else 0.9 * mean + 0.1 * loss.item()
        if step % 8 == 7 and dist.get_rank() == 0:
            print(f"step {step + 1}: loss {mean:.4f}")
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
