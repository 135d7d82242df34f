import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Forecaster(nn.Module):
    """Predicts the next values of four series."""

    def __init__(self, width):
        super().__init__()
        self.enter = nn.Linear(8, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.leave = nn.Linear(width, 4)

    def forward(self, x):
        x = torch.tanh(self.enter(x))
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.leave(x)


class SpikeGuard:
    """Skips steps whose gradient is far above the recent ones."""

    def __init__(self, factor, decay=0.9):
        self.factor, self.decay = factor, decay
        self.mean, self.skipped = None, []

    def allows(self, step, size):
        if self.mean is not None and size > self.factor * self.mean:
            self.skipped.append(step)
            return False
        self.mean = size if self.mean is None else self.decay * self.mean + (1 - self.decay) * size
        return True


def batches(steps, rank):
    """Sensors of the last series fail now and then."""
    generator = torch.Generator().manual_seed(20 + rank)
    for step in range(steps):
        x = torch.randn(16, 8, generator=generator)
        y = torch.stack([x[:, 0], x[:, 1] * x[:, 2], x[:, 3].sin(), x[:, 4]], dim=1)
        if step % 4 == 3:
            y[:, 3] += 0.2 * step
        yield x, y


def largest_gradient(model):
    gradients = [parameter.grad.to_local() for parameter in model.parameters()]
    return max(gradient.abs().max().item() for gradient in gradients)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--max-norm", type=float, default=1.0)
    parser.add_argument("--factor", type=float, default=1.7)
    parser.add_argument("--lr", type=float, default=0.02)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = Forecaster(16)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    guard = SpikeGuard(args.factor)
    for step, (x, y) in enumerate(batches(args.steps, dist.get_rank())):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        largest = largest_gradient(model)
        nn.utils.clip_grad_norm_(model.parameters(), args.max_norm)
        if guard.allows(step, largest):
            optimizer.step()
        optimizer.zero_grad()
    skipped = [None] * dist.get_world_size()
    dist.all_gather_object(skipped, guard.skipped)
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.4f}, skipped {skipped}")
    print(f"skips are the same on all ranks: {all(each == skipped[0] for each in skipped)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
