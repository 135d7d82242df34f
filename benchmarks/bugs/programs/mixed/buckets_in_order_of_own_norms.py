import torch
import torch.distributed as dist
from torch import nn


class Tower(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.first = nn.Linear(width, width, bias=False)
        self.second = nn.Linear(width, width, bias=False)
        self.third = nn.Linear(width, width, bias=False)

    def forward(self, x):
        return self.third(torch.tanh(self.second(torch.tanh(self.first(x)))))


class Reducer:
    """Averages the largest gradients first, in one flat tensor for each two."""

    def __init__(self, model):
        self.parameters = list(model.parameters())

    def reduce(self):
        ordered = sorted(self.parameters, key=lambda p: p.grad.norm().item(), reverse=True)
        for start in range(0, len(ordered), 2):
            bucket = ordered[start : start + 2]
            flat = torch.cat([p.grad.flatten() for p in bucket])
            dist.all_reduce(flat)
            flat /= dist.get_world_size()
            for p, part in zip(bucket, flat.split([p.numel() for p in bucket])):
                p.grad.copy_(part.view_as(p))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(3)
    model = Tower()
    reducer = Reducer(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    torch.manual_seed(50 + rank)
    for step in range(5):
        scale = torch.tensor([10.0, 0.1])[rank]
        x = torch.randn(8, 6) * scale
        loss = (model(x) - x.flip(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        reducer.reduce()
        optimizer.step()
    print(f"rank {rank} loss {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
