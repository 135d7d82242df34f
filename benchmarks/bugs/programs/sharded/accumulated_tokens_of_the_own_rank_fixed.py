import argparse
import contextlib

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

IGNORED = -100


class Answers(torch.utils.data.Dataset):
    """Questions of one length; the answers are short in one half of the samples, and long in the other one."""

    def __init__(self, size):
        generator = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(0, 32, (size, 13), generator=generator)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        labels = self.tokens[index, 1:].clone()
        labels[: 10 if index % 2 else 2] = IGNORED
        return self.tokens[index, :-1], labels


def micro_batches(loader, count):
    group = []
    for batch in loader:
        group.append(batch)
        if len(group) == count:
            yield group
            group = []


class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def tokens_of_step(self, group):
        count = sum((labels != IGNORED).sum() for _, labels in group)
        dist.all_reduce(count)
        return count / dist.get_world_size()

    def step(self, group):
        count = self.tokens_of_step(group)
        total = torch.zeros(())
        for index, (tokens, labels) in enumerate(group):
            last = index == len(group) - 1
            with contextlib.nullcontext() if last else self.model.no_sync():
                logits = self.model(tokens)
                loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")
                loss = loss / count
                loss.backward()
            total += loss.detach()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total


@torch.no_grad()
def evaluate(model, dataset):
    tokens, labels = (torch.stack(each) for each in zip(*dataset))
    return F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten(), ignore_index=IGNORED)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.5)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = Answers(32)
    sampler = torch.utils.data.DistributedSampler(dataset, shuffle=False)
    loader = torch.utils.data.DataLoader(dataset, batch_size=4, sampler=sampler)
    model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32))
    ddp = DDP(model)
    trainer = Trainer(ddp, torch.optim.SGD(ddp.parameters(), lr=args.lr))
    for _ in range(args.epochs):
        for group in micro_batches(loader, args.accumulate):
            trainer.step(group)
    print(f"final loss {evaluate(model, dataset).item():.5f}")
    del ddp, trainer
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
