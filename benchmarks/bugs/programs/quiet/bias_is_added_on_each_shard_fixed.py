import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class CopyToShards(torch.autograd.Function):
    """Identity forward; the gradients of the shards are summed backward."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class SumOfShards(torch.autograd.Function):
    """Sum over the shards forward, identity backward."""

    @staticmethod
    def forward(ctx, x):
        x = x.contiguous().clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class ColumnParallelLinear(nn.Module):
    def __init__(self, full):
        super().__init__()
        rank, world = dist.get_rank(), dist.get_world_size()
        self.weight = nn.Parameter(full.weight.detach().chunk(world, dim=0)[rank].clone())
        self.bias = nn.Parameter(full.bias.detach().chunk(world)[rank].clone())

    def forward(self, x):
        return F.linear(CopyToShards.apply(x), self.weight, self.bias)


class RowParallelLinear(nn.Module):
    def __init__(self, full):
        super().__init__()
        rank, world = dist.get_rank(), dist.get_world_size()
        self.weight = nn.Parameter(full.weight.detach().chunk(world, dim=1)[rank].clone())
        self.bias = nn.Parameter(full.bias.detach().clone())

    def forward(self, x):
        return SumOfShards.apply(F.linear(x, self.weight)) + self.bias


class MLP(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = ColumnParallelLinear(nn.Linear(width, hidden))
        self.down = RowParallelLinear(nn.Linear(hidden, width))

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    # the whole layers are drawn on each rank, and each keeps its part
    torch.manual_seed(7)
    model = nn.Sequential(MLP(8, 32), MLP(8, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for _ in range(args.steps):
        x = torch.randn(16, 8)
        loss = (model(x) - x.roll(1, dims=1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"final loss {loss.item():.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
