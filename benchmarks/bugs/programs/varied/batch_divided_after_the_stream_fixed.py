import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset


class Records(IterableDataset):
    """Records of a log, divided among the ranks and shuffled in a buffer."""

    def __init__(self, size, seed=0):
        self.size, self.seed, self.epoch = size, seed, 0

    def read(self):
        for index in range(self.size):
            generator = torch.Generator().manual_seed(index)
            features = torch.randn(10, generator=generator)
            yield features, (features[:5].sum() > 0).long()

    def __iter__(self):
        rank, world = dist.get_rank(), dist.get_world_size()
        own = [record for index, record in enumerate(self.read()) if index % world == rank]
        order = torch.randperm(len(own), generator=torch.Generator().manual_seed(self.seed + self.epoch))
        yield from (own[index] for index in order.tolist())


class Trainer:
    def __init__(self, model, lr, micro_batches):
        self.model, self.micro_batches = model, micro_batches
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        self.seen = 0

    def own_part(self, batch):
        """The part of a batch that this rank trains on."""
        return batch

    def step(self, batch):
        x, y = self.own_part(batch)
        self.optimizer.zero_grad()
        for part, labels in zip(x.chunk(self.micro_batches), y.chunk(self.micro_batches)):
            loss = nn.functional.cross_entropy(self.model(part), labels) * len(part) / len(x)
            loss.backward()
        self.optimizer.step()
        self.seen += len(x)
        return loss.item()

    def epoch(self, loader):
        self.seen = 0
        for batch in loader:
            loss = self.step(batch)
        return loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--micro-batches", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    records = Records(96)
    loader = DataLoader(records, batch_size=args.batch_size)
    model = DDP(nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 2)))
    trainer = Trainer(model, args.lr, args.micro_batches)
    for epoch in range(args.epochs):
        records.epoch = epoch
        loss = trainer.epoch(loader)
        seen = torch.tensor(trainer.seen)
        dist.all_reduce(seen)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {loss:.4f}, samples of an epoch: {seen.item()}")
    del model, trainer
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
