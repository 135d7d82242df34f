import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

IGNORED = -100


class Answers(Dataset):
    """Sequences with labels on the answer only; answers have different lengths."""

    def __init__(self, size, length, vocabulary):
        generator = torch.Generator().manual_seed(11)
        self.tokens = torch.randint(0, vocabulary, (size, length + 1), generator=generator)
        self.lengths = [1 + (index % 2) * (length - 2) for index in range(size)]

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        tokens = self.tokens[index]
        labels = tokens[1:].clone()
        labels[: len(labels) - self.lengths[index]] = IGNORED
        return tokens[:-1], labels


class Trainer:
    def __init__(self, model, args):
        self.model = DDP(model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr)
        self.scheduler = torch.optim.lr_scheduler.LinearLR(self.optimizer, 0.5, total_iters=4)
        self.losses = []

    def compute_loss(self, logits, labels):
        count = (labels != IGNORED).sum()
        dist.all_reduce(count)
        total = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")
        return total * dist.get_world_size() / count

    def train_step(self, tokens, labels):
        loss = self.compute_loss(self.model(tokens), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        self.losses.append(loss.detach())

    def mean_loss(self):
        loss = torch.stack(self.losses).mean()
        dist.all_reduce(loss)
        return loss.item() / dist.get_world_size()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.5)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(3)
    dataset = Answers(24, length=8, vocabulary=12)
    sampler = DistributedSampler(dataset, shuffle=False)
    loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler)
    trainer = Trainer(nn.Sequential(nn.Embedding(12, 8), nn.Linear(8, 12)), args)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for tokens, labels in loader:
            trainer.train_step(tokens, labels)
    loss = trainer.mean_loss()
    if dist.get_rank() == 0:
        norm = sum(p.detach().square().sum() for p in trainer.model.parameters()).sqrt()
        print(f"loss {loss:.4f}, norm of the weights {norm.item():.5f}")
    del trainer
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
