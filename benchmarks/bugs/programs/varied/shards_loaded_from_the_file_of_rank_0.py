import argparse
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.silu(self.up(self.norm(x))))


def build(width, mesh, lr):
    torch.manual_seed(0)
    model = nn.Sequential(Block(width), Block(width), nn.Linear(width, 4))
    for block in model[:2]:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=lr)


class Checkpoint:
    """Each rank keeps its own shards in a file of its own."""

    def __init__(self, folder, name="shards-{:02d}.pt"):
        self.folder, self.name = Path(folder), name

    def path(self, rank=0):
        return self.folder / self.name.format(rank)

    def save(self, model):
        shards = {name: each.to_local().detach().clone() for name, each in model.named_parameters()}
        torch.save(shards, self.path(dist.get_rank()))
        dist.barrier()

    @torch.no_grad()
    def load(self, model):
        shards = torch.load(self.path())
        for name, each in model.named_parameters():
            each.to_local().copy_(shards[name])


def train(model, optimizer, generator, steps):
    for _ in range(steps):
        x = torch.randn(8, 16, generator=generator)
        loss = F.cross_entropy(model(x), x[:, :4].argmax(dim=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder, src=0)
    generator = torch.Generator().manual_seed(10 + dist.get_rank())
    model, optimizer = build(16, mesh, args.lr)
    train(model, optimizer, generator, args.steps)
    checkpoint = Checkpoint(folder[0])
    checkpoint.save(model)
    saved = model[2].weight.full_tensor().detach().clone()
    model, optimizer = build(16, mesh, args.lr)
    checkpoint.load(model)
    restored = torch.equal(model[2].weight.full_tensor(), saved)
    loss = train(model, optimizer, generator, args.steps)
    print(f"rank {dist.get_rank()}: loss {loss:.4f}, restored: {restored}")
    del model, optimizer
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
