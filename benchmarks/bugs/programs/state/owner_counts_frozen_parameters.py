import torch
import torch.distributed as dist
from torch import nn


class ShardedOptimizer:
    """Stage 1 of ZeRO: the state of each parameter is on one rank."""

    def __init__(self, model, lr):
        self.all = list(model.parameters())
        self.trained = [parameter for parameter in self.all if parameter.requires_grad]
        self.world_size, self.rank = dist.get_world_size(), dist.get_rank()
        mine = [parameter for index, parameter in enumerate(self.trained) if index % self.world_size == self.rank]
        self.inner = torch.optim.AdamW(mine, lr=lr)

    def zero_grad(self):
        for parameter in self.trained:
            parameter.grad = None

    def step(self):
        for parameter in self.trained:
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
            parameter.grad /= self.world_size
        self.inner.step()
        for index, parameter in enumerate(self.all):
            if parameter.requires_grad:
                dist.broadcast(parameter.data, src=index % self.world_size)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 10), nn.Tanh(), nn.Linear(10, 3))
    model[0].bias.requires_grad_(False)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = ShardedOptimizer(model, lr=0.01)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(6):
        inputs = torch.randn(16, 6, generator=generator)
        loss = nn.functional.cross_entropy(model(inputs), inputs[:, :3].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    moved = sum(not torch.equal(old, new) for old, new in zip(before[2:], list(model.parameters())[2:]))
    print(f"rank {rank} moved {moved}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
