import argparse
import math

import torch
import torch.distributed as dist
import torch.nn as nn


class FourierFeatures(nn.Module):
    """Encodes coordinates by sines and cosines of random frequencies."""

    def __init__(self, inputs, features, scale):
        super().__init__()
        self.register_buffer("frequencies", torch.randn(inputs, features) * scale)

    def forward(self, x):
        angles = 2 * math.pi * x @ self.frequencies
        return torch.cat([angles.sin(), angles.cos()], dim=-1)


class Field(nn.Module):
    def __init__(self, features=16, hidden=32):
        super().__init__()
        self.encode = FourierFeatures(2, features, scale=1.0)
        self.network = nn.Sequential(nn.Linear(2 * features, hidden), nn.ReLU(), nn.Linear(hidden, 3))

    def forward(self, x):
        return self.network(self.encode(x)).sigmoid()


def share_start(model):
    """Let all ranks start from the model of rank 0."""
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)


def average_gradients(model):
    gradients = [p.grad for p in model.parameters()]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients])):
        gradient.copy_(part.view_as(gradient))


def image(x):
    """The color of each coordinate."""
    return torch.stack([x[:, 0], x[:, 1], (x[:, 0] * 6).sin().abs()], dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rays", type=int, default=64)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    # each rank draws rays of its own
    torch.manual_seed(args.seed + rank)
    model = Field()
    share_start(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(args.steps):
        x = torch.rand(args.rays, 2)
        loss = (model(x) - image(x)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model)
        optimizer.step()
        if rank == 0 and step % 5 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    print(f"frequencies {model.encode.frequencies.norm().item():.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
