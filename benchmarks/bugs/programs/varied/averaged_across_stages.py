import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class Layout:
    """Ranks by replica and stage: two stages, and as many replicas as fit."""

    def __init__(self, stages):
        self.stages = stages
        self.rank, world = dist.get_rank(), dist.get_world_size()
        self.replicas = world // stages
        self.replica, self.stage = divmod(self.rank, stages)
        self.data_group = None
        for ranks in self.groups(world):
            group = dist.new_group(ranks)
            if self.rank in ranks:
                self.data_group = group

    def groups(self, world):
        """The ranks whose gradients are averaged."""
        return [list(range(first, first + self.replicas)) for first in range(0, world, self.replicas)]

    def previous(self):
        return self.rank - 1

    def next(self):
        return self.rank + 1


class Stage(nn.Module):
    """Stages are alike: a block, and a head that only the last one uses."""

    def __init__(self, width, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def forward(self, x):
        return x + self.second(torch.tanh(self.first(x)))


def run_step(layout, stage, x, y):
    """Forward and backward of one batch through the stages of a replica."""
    if layout.stage == 0:
        output = stage(x)
        dist.send(output.detach(), dst=layout.next())
        gradient = torch.empty_like(output)
        dist.recv(gradient, src=layout.next())
        output.backward(gradient)
        return None
    hidden = torch.empty_like(x)
    dist.recv(hidden, src=layout.previous())
    hidden.requires_grad_()
    loss = F.mse_loss(stage(hidden), y)
    loss.backward()
    dist.send(hidden.grad, dst=layout.previous())
    return loss.item()


def average_gradients(layout, stage):
    for parameter in stage.parameters():
        dist.all_reduce(parameter.grad, group=layout.data_group)
        parameter.grad /= layout.replicas


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    layout = Layout(stages=2)
    stage = Stage(8, seed=layout.stage)
    optimizer = torch.optim.SGD(stage.parameters(), lr=args.lr)
    generator = torch.Generator().manual_seed(20 + layout.replica)
    for _ in range(args.steps):
        x = torch.randn(6, 8, generator=generator)
        optimizer.zero_grad()
        run_step(layout, stage, x, x.flip(1))
        average_gradients(layout, stage)
        optimizer.step()
    own = stage.first.weight.detach()
    every = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(every, own)
    print(f"replicas of the first stage agree: {torch.equal(every[0], every[2])}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
