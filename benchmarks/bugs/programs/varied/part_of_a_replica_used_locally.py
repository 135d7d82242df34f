import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, distribute_module, distribute_tensor


class Experts(nn.Module):
    """Each rank holds one expert, and adds its part to the output."""

    def __init__(self, width, mesh):
        super().__init__()
        self.mesh = mesh
        torch.manual_seed(100 + mesh.get_local_rank())
        self.own = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, hidden, weights):
        part = weights[:, self.mesh.get_local_rank()].unsqueeze(1) * self.own(hidden)
        return DTensor.from_local(part, self.mesh, [Partial()]).redistribute(placements=[Replicate()])


def local_copy(replicated):
    """The whole tensor, of which this rank uses what belongs to its expert."""
    return replicated.to_local()


class Mixture(nn.Module):
    def __init__(self, width, classes, mesh):
        super().__init__()
        self.mesh = mesh
        torch.manual_seed(1)
        self.body = distribute_module(nn.Linear(width, width), mesh)
        self.router = distribute_module(nn.Linear(width, mesh.size()), mesh)
        self.head = distribute_module(nn.Linear(width, classes), mesh)
        self.experts = Experts(width, mesh)

    def forward(self, x):
        x = distribute_tensor(x, self.mesh, [Replicate()])
        hidden = torch.tanh(self.body(x))
        weights = torch.softmax(self.router(hidden), dim=-1)
        return self.head(hidden + self.experts(local_copy(hidden), local_copy(weights))).to_local()


def drift(parameter):
    """How far the copies of a replicated parameter are apart."""
    local = parameter.to_local().detach()
    most, least = local.clone(), local.clone()
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    dist.all_reduce(least, op=dist.ReduceOp.MIN)
    return (most - least).max().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = Mixture(12, 3, mesh)
    dense = [each for each in model.parameters() if isinstance(each, DTensor)]
    sparse = [each for each in model.parameters() if not isinstance(each, DTensor)]
    optimizers = [torch.optim.SGD(dense, lr=args.lr), torch.optim.SGD(sparse, lr=args.lr)]
    generator = torch.Generator().manual_seed(5)
    for _ in range(args.steps):
        x = torch.randn(8, 12, generator=generator)
        loss = F.cross_entropy(model(x), x[:, :3].argmax(dim=1))
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    print(f"copies of the router differ by {drift(model.router.weight):.4f}")
    del model, optimizers
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
