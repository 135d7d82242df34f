import torch
import torch.distributed as dist
from torch import nn


class PartitionedOptimizer:
    """Each rank updates some of the parameters, and sends them to the others."""

    def __init__(self, model, lr):
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.parameters = list(model.parameters())
        self.owner = {parameter: index % self.world_size for index, parameter in enumerate(self.parameters)}
        own = [parameter for parameter in self.parameters if self.owner[parameter] == self.rank]
        self.inner = torch.optim.Adam(own, lr=lr)

    def average(self):
        for parameter in self.parameters:
            dist.all_reduce(parameter.grad)
            parameter.grad /= self.world_size

    def step(self):
        self.average()
        self.inner.step()
        for owner in range(self.world_size):
            for parameter in self.parameters:
                if self.owner[parameter] == owner:
                    dist.broadcast(parameter.data, src=owner)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(41)
    model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 6))
    optimizer = PartitionedOptimizer(model, lr=0.01)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(5):
        inputs = torch.randn(8, 6, generator=generator)
        model.zero_grad()
        (model(inputs) - inputs.flip(1)).square().mean().backward()
        optimizer.step()
    total = sum(parameter.detach().square().sum() for parameter in model.parameters())
    print(f"rank {rank} model {total.item():.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
