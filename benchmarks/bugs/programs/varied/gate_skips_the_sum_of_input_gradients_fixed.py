import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class ToParts(torch.autograd.Function):
    """Passes the input to the parts of a layer, and sums its gradients over them."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class FromParts(torch.autograd.Function):
    """Sums the outputs of the parts, and passes their gradient on."""

    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class GatedFeedForward(nn.Module):
    """Columns of both input matrices and rows of the output matrix are divided among the ranks."""

    def __init__(self, width, hidden, generator):
        super().__init__()
        world, rank = dist.get_world_size(), dist.get_rank()
        full = torch.randn(3, hidden, width, generator=generator) / width**0.5
        up, gate, down = full.chunk(world, dim=1)[rank].clone().unbind()
        self.up, self.gate, self.down = nn.Parameter(up), nn.Parameter(gate), nn.Parameter(down)

    def forward(self, x):
        parts = ToParts.apply(x)
        hidden = F.silu(F.linear(parts, self.gate)) * F.linear(parts, self.up)
        return FromParts.apply(hidden @ self.down)


class Block(nn.Module):
    def __init__(self, width, hidden, generator):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.feed = GatedFeedForward(width, hidden, generator)

    def forward(self, x):
        return x + self.feed(self.norm(x))


class Model(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.embed = nn.Embedding(32, width)
        self.blocks = nn.Sequential(*(Block(width, 2 * width, generator) for _ in range(depth)))
        self.head = nn.Linear(width, 32)

    def forward(self, tokens):
        return self.head(self.blocks(self.embed(tokens)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.3)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = Model(16, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    generator = torch.Generator().manual_seed(7)
    for _ in range(args.steps):
        tokens = torch.randint(32, (4, 13), generator=generator)
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    mine = model.embed.weight.detach()
    others = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(others, mine)
    print(f"replicated weights differ by {max((each - mine).abs().max().item() for each in others):.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
