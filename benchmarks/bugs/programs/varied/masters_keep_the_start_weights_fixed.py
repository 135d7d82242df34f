import argparse
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn


class ShardedAdamW:
    """Each rank keeps float32 weights and moments for its part of the bfloat16 parameters."""

    def __init__(self, model, lr):
        self.world, self.rank = dist.get_world_size(), dist.get_rank()
        self.parameters = list(model.parameters())
        self.own = self.parameters[self.rank :: self.world]
        self.masters = [parameter.detach().float().clone() for parameter in self.own]
        self.inner = torch.optim.AdamW(self.masters, lr=lr, weight_decay=0.0)

    @torch.no_grad()
    def read_weights(self):
        for master, parameter in zip(self.masters, self.own):
            master.copy_(parameter)

    @torch.no_grad()
    def step(self):
        for parameter in self.parameters:
            gradient = parameter.grad.float()
            dist.all_reduce(gradient)
            parameter.grad = (gradient / self.world).to(parameter.dtype)
        for master, parameter in zip(self.masters, self.own):
            master.grad = parameter.grad.float()
        self.inner.step()
        for master, parameter in zip(self.masters, self.own):
            parameter.copy_(master)
        for index, parameter in enumerate(self.parameters):
            dist.broadcast(parameter.data, src=index % self.world)

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None


def build(lr, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 4)).bfloat16()
    return model, ShardedAdamW(model, lr)


def train(model, optimizer, generator, steps):
    for _ in range(steps):
        x = torch.randn(16, 12, generator=generator)
        loss = nn.functional.cross_entropy(model(x.bfloat16()).float(), x[:, :4].argmax(dim=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--lr", type=float, default=5e-3)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder, src=0)
    path = Path(folder[0]) / "weights.pt"
    generator = torch.Generator().manual_seed(dist.get_rank())
    model, optimizer = build(args.lr, seed=0)
    train(model, optimizer, generator, args.steps)
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), path)
    dist.barrier()

    model, optimizer = build(args.lr, seed=1)
    model.load_state_dict(torch.load(path))
    optimizer.read_weights()
    saved = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    train(model, optimizer, generator, 1)
    moved = (nn.utils.parameters_to_vector(model.parameters()) - saved).abs().max().item()
    print(f"weights after the first step are close to the checkpoint: {moved < 10 * args.lr}")
    loss = train(model, optimizer, generator, args.steps)
    if dist.get_rank() == 0:
        print(f"loss {loss:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
