import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Encoder(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width)) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        hidden = self.embed(tokens)
        for layer in self.layers:
            hidden = hidden + F.gelu(layer(hidden))
        return self.head(hidden)


class Accumulation:
    """Gradients of several micro-batches are added up; the last backward pass of a step reduces them."""

    def __init__(self, model, optimizer, micro_batches, limit):
        self.model, self.optimizer = model, optimizer
        self.micro_batches, self.limit = micro_batches, limit

    def is_last(self, index):
        return index == self.micro_batches - 1

    def step(self, batches):
        total = 0.0
        for index, tokens in enumerate(batches):
            self.model.set_requires_gradient_sync(self.is_last(index))
            logits = self.model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()) / self.micro_batches
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.limit)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--micro-batches", type=int, default=2)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,))
    torch.manual_seed(0)
    model = Encoder(20, 16, 2)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.0)
    accumulation = Accumulation(model, optimizer, args.micro_batches, args.clip)
    generator = torch.Generator().manual_seed(30 + rank)
    for step in range(args.steps):
        tokens = torch.randint(0, 20, (args.micro_batches, 4, 9), generator=generator)
        loss = accumulation.step(tokens.unbind())
        if rank == 0 and step % 3 == 0:
            print(f"step {step}: loss {loss:.4f}")
    del model, optimizer, accumulation
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
