import argparse
import itertools
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, Sampler


class Texts(Dataset):
    """Texts of different lengths; short ones come first in each pair."""

    def __init__(self, size):
        generator = torch.Generator().manual_seed(3)
        self.tokens = torch.randint(1, 50, (size, 12), generator=generator)

    def __len__(self):
        return len(self.tokens)

    def length(self, index):
        return 4 if index % 2 else 8

    def __getitem__(self, index):
        tokens = self.tokens[index].clone()
        tokens[self.length(index) :] = 0
        return tokens


class TokenBudget(Sampler):
    """Batches of at most ``budget`` tokens from the share of this rank; continues after a restart."""

    def __init__(self, dataset, rank, world, budget):
        self.dataset, self.rank, self.world, self.budget = dataset, rank, world, budget
        self.consumed = 0

    def __iter__(self):
        batch, used = [], 0
        for index in range(self.consumed + self.rank, len(self.dataset), self.world):
            if used + self.dataset.length(index) > self.budget:
                yield batch
                batch, used = [], 0
            batch.append(index)
            used += self.dataset.length(index)

    def state_dict(self, read):
        return {"consumed": self.consumed + read}

    def load_state_dict(self, state):
        self.consumed = state["consumed"]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16, padding_idx=0)
        self.head = nn.Linear(16, 50)

    def forward(self, tokens):
        return self.head(self.embed(tokens))


def run(model, optimizer, sampler, dataset, steps):
    """Train for some steps; give the number of samples that this rank has read."""
    read = 0
    for tokens in itertools.islice(DataLoader(dataset, batch_sampler=sampler), steps):
        loss = F.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        read += len(tokens)
    return read


def agreed(read):
    """The number of samples that a rank has read at most."""
    most = torch.tensor(read)
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    return most.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--budget", type=int, default=24)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    dataset = Texts(80)
    model = DDP(Model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sampler = TokenBudget(dataset, rank, world, args.budget)
    read = run(model, optimizer, sampler, dataset, args.steps)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"sampler{rank}.pt"
        torch.save(sampler.state_dict(read), path)
        resumed = TokenBudget(dataset, rank, world, args.budget)
        resumed.load_state_dict(torch.load(path))
    run(model, optimizer, resumed, dataset, args.steps)
    del model, optimizer
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
