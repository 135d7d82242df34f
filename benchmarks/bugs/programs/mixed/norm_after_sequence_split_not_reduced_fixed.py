import torch
import torch.distributed as dist
import torch.distributed.nn.functional as functional
from torch import nn


class Block(nn.Module):
    """The sequence is divided before the normalization, and gathered for the layer."""

    def __init__(self, width=8):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.layer = nn.Linear(width, width)

    def forward(self, sequence):
        rank, world = dist.get_rank(), dist.get_world_size()
        part = sequence.chunk(world, dim=1)[rank]
        parts = functional.all_gather(self.norm(part).contiguous())
        return self.layer(torch.cat(list(parts), dim=1))


def synchronize(model):
    names = ("norm.weight", "norm.bias", "layer.weight", "layer.bias")
    for name, parameter in model.named_parameters():
        if name in names:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(21)
    model = Block()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for step in range(6):
        sequence = torch.randn(4, 10, 8) * torch.linspace(0.1, 3.0, 10).view(1, 10, 1) + 1
        loss = (model(sequence) - sequence.cumsum(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        synchronize(model)
        optimizer.step()
    print(f"rank {rank} loss {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
