import argparse
import random

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler, RandomSampler


class Utterances(Dataset):
    def __init__(self, size):
        generator = torch.Generator().manual_seed(0)
        self.lengths = torch.randint(4, 12, (size,), generator=generator).tolist()
        self.features = torch.randn(size, 12, generator=generator)

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        return self.features[index], self.lengths[index]


class BatchesByLength:
    """Draws a pool of indices from a sampler, sorts it by length and cuts it into batches."""

    def __init__(self, sampler, lengths, batch_size, seed=0):
        self.sampler, self.lengths, self.batch_size = sampler, lengths, batch_size
        self.seed, self.epoch = seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)

    def __len__(self):
        return len(self.sampler) // self.batch_size

    def __iter__(self):
        pool = sorted(self.sampler, key=lambda index: self.lengths[index])
        batches = [pool[start : start + self.batch_size] for start in range(0, len(pool), self.batch_size)]
        random.Random(self.seed + self.epoch).shuffle(batches)
        yield from batches[: len(self)]


def build_loader(dataset, args):
    sampler = DistributedSampler(dataset, shuffle=True, seed=args.seed, drop_last=True)
    batches = BatchesByLength(RandomSampler(dataset), dataset.lengths, args.batch_size, args.seed)
    return DataLoader(dataset, batch_sampler=batches), sampler, batches


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    dataset = Utterances(64)
    loader, sampler, batches = build_loader(dataset, args)
    model = DDP(nn.Sequential(nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        batches.set_epoch(epoch)
        total = torch.zeros(2)
        for features, lengths in loader:
            loss = (model(features).squeeze(1) - lengths / 12).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += torch.tensor([loss.item(), 1.0])
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {total[0] / total[1]:.4f}, {len(loader)} batches on each rank")
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
