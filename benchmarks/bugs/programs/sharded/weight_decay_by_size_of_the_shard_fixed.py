import argparse

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
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Network(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def is_large(parameter, limit):
    """Whether a parameter is a matrix that weight decay is for, and no bias, norm or small head."""
    return parameter.dim() > 1 and parameter.numel() >= limit


def parameter_groups(model, decay, limit):
    large = [each for each in model.parameters() if is_large(each, limit)]
    small = [each for each in model.parameters() if not is_large(each, limit)]
    return [{"params": large, "weight_decay": decay}, {"params": small, "weight_decay": 0.0}]


def is_decayed(optimizer, parameter):
    return any(
        group["weight_decay"] > 0 for group in optimizer.param_groups for each in group["params"] if each is parameter
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,))
    torch.manual_seed(0)
    model = Network(16, 5)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(parameter_groups(model, args.weight_decay, args.limit), lr=args.lr)
    generator = torch.Generator().manual_seed(10 + rank)
    for _ in range(args.steps):
        x = torch.randn(8, 16, generator=generator)
        loss = F.cross_entropy(model(x), (x.sum(dim=1) > 0).long())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    parts = [None] * world
    dist.all_gather_object(parts, int(is_decayed(optimizer, model.head.weight)))
    print(f"decayed parts: {parts}")
    del model, optimizer
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
