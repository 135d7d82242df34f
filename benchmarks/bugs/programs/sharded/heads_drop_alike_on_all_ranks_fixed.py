import argparse
import contextlib

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class Copy(torch.autograd.Function):
    """Identity forward; sums the gradients of the shards backward."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class Reduce(torch.autograd.Function):
    """Sum over the shards forward, identity backward."""

    @staticmethod
    def forward(ctx, x):
        x = x.contiguous().clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class RandomStates:
    """A random state for what all ranks hold, and one for what is divided among them."""

    def __init__(self, seed):
        torch.manual_seed(seed)
        self.sharded = torch.Generator().manual_seed(seed + 2718 + dist.get_rank()).get_state()

    @contextlib.contextmanager
    def of_shard(self):
        common = torch.get_rng_state()
        torch.set_rng_state(self.sharded)
        try:
            yield
        finally:
            self.sharded = torch.get_rng_state()
            torch.set_rng_state(common)


class ParallelMLP(nn.Module):
    def __init__(self, width, hidden, states):
        super().__init__()
        rank, world = dist.get_rank(), dist.get_world_size()
        up, down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.up = nn.Parameter(up.weight.detach().chunk(world, dim=0)[rank].clone())
        self.down = nn.Parameter(down.weight.detach().chunk(world, dim=1)[rank].clone())
        self.states = states
        self.mask = None

    def forward(self, x):
        hidden = F.gelu(F.linear(Copy.apply(x), self.up))
        with self.states.of_shard():
            mask = F.dropout(torch.ones_like(hidden), 0.1, training=self.training)
        self.mask = mask.detach()
        x = x + F.dropout(Reduce.apply(F.linear(hidden * mask, self.down)), 0.1, training=self.training)
        return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=1234)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    states = RandomStates(args.seed)
    model = nn.Sequential(ParallelMLP(8, 64, states), ParallelMLP(8, 64, states))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    generator = torch.Generator().manual_seed(args.seed)
    for _ in range(args.steps):
        x = torch.randn(16, 8, generator=generator)
        loss = F.mse_loss(model(x), x.roll(1, dims=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    masks = [torch.empty_like(model[0].mask) for _ in range(dist.get_world_size())]
    dist.all_gather(masks, model[0].mask)
    print(f"masks agree: {torch.equal(masks[0], masks[1])}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
