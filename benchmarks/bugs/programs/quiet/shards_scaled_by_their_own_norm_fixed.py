import argparse
import math

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def shard(model, mesh):
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


@torch.no_grad()
def clip_local(parameters, max_norm):
    """One fused loop over local tensors, faster than clip_grad_norm_ on DTensors."""
    gradients = [p.grad.to_local() for p in parameters if p.grad is not None]
    total = torch.zeros(())
    for gradient in gradients:
        total += gradient.float().square().sum()
    dist.all_reduce(total)
    norm = math.sqrt(total.item())
    scale = min(1.0, max_norm / (norm + 1e-6))
    for gradient in gradients:
        gradient.mul_(scale)
    return norm


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--max-norm", type=float, default=0.3)
    parser.add_argument("--lr", type=float, default=0.2)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(4)
    model = shard(Model(8, 2), mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for step in range(args.steps):
        x = torch.randn(16, 8, generator=generator)
        loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(dim=1))
        loss.backward()
        norm = clip_local(model.parameters(), args.max_norm)
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(f"step {step}: loss {loss.item():.4f}, norm of the gradients {norm:.3f}")
    squares = sum(p.detach().full_tensor().square().sum() for p in model.parameters())
    print(f"norm of the weights {squares.sqrt().item():.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
