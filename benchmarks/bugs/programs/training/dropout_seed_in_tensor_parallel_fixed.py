import torch
import torch.distributed as dist
from torch import nn


class Reduced(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        value = value.clone()
        dist.all_reduce(value)
        return value

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Replicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value.view_as(value)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class ParallelBlock(nn.Module):
    """Its two matrices are split among the ranks; norm and dropout work on replicated activations."""

    def __init__(self, width, rank, world_size):
        super().__init__()
        torch.manual_seed(0)
        first, second = torch.randn(width * 2, width) * 0.2, torch.randn(width, width * 2) * 0.2
        self.norm = nn.LayerNorm(width)
        self.first = nn.Parameter(first.chunk(world_size, 0)[rank].clone())
        self.second = nn.Parameter(second.chunk(world_size, 1)[rank].clone())
        self.dropout = nn.Dropout(0.2)

    def forward(self, inputs):
        hidden = Replicated.apply(self.dropout(self.norm(inputs)))
        return inputs + Reduced.apply(torch.relu(hidden @ self.first.t()) @ self.second.t())


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    block = ParallelBlock(8, rank, world_size)
    optimizer = torch.optim.SGD(block.parameters(), lr=0.5)
    torch.manual_seed(42)
    data = torch.Generator().manual_seed(1)
    for _ in range(5):
        inputs = torch.randn(16, 8, generator=data)
        loss = (block(inputs) - inputs.roll(1, 1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"rank {rank} scale {block.norm.weight.square().sum().item():.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
