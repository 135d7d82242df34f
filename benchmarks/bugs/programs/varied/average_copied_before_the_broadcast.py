import argparse
import copy

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class MovingAverage:
    """A slowly moving copy of the weights, with which the model is evaluated."""

    def __init__(self, model, decay):
        self.copy = copy.deepcopy(model).requires_grad_(False).eval()
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for average, weight in zip(self.copy.parameters(), model.parameters()):
            average.lerp_(weight, 1 - self.decay)


def make_model():
    return nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.Linear(20, 4))


def make_data(size, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, 12, generator=generator)
    return TensorDataset(x, x[:, :4].argmax(dim=1))


@torch.no_grad()
def evaluate(model, data):
    """The loss over a validation set of which each rank takes its part."""
    rank, world = dist.get_rank(), dist.get_world_size()
    x, y = data.tensors[0][rank::world], data.tensors[1][rank::world]
    total = F.cross_entropy(model(x), y)
    dist.all_reduce(total)
    return total.item() / world


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--decay", type=float, default=0.98)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    # augmentation differs between ranks
    torch.manual_seed(args.seed + dist.get_rank())
    training, validation = make_data(64, 1), make_data(32, 2)
    sampler = DistributedSampler(training, seed=args.seed)
    loader = DataLoader(training, batch_size=args.batch_size, sampler=sampler)
    model = make_model()
    average = MovingAverage(model, args.decay)
    ddp = DDP(model)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=5e-3)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            x = x + 0.1 * torch.randn_like(x)
            loss = F.cross_entropy(ddp(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            average.update(ddp.module)
        print(f"epoch {epoch}: loss of the average {evaluate(average.copy, validation):.4f}")
    own = average.copy[0].weight.detach()
    most, least = own.clone(), own.clone()
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    dist.all_reduce(least, op=dist.ReduceOp.MIN)
    print(f"averages differ by {(most - least).max().item():.4f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
