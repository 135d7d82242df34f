import torch
import torch.distributed as dist
from torch import nn


class Expert(nn.Module):
    """Its batch statistics come from all ranks."""

    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, tokens):
        moments = torch.stack([torch.tensor(float(len(tokens))), tokens.detach().sum()])
        dist.all_reduce(moments)
        center = moments[1] / moments[0].clamp(min=1.0)
        return self.down(torch.relu(self.up(tokens - center)))


class Mixture(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(Expert(width) for _ in range(experts))

    def forward(self, tokens):
        chosen = self.router(tokens).argmax(dim=1)
        result = torch.zeros_like(tokens)
        for index, expert in enumerate(self.experts):
            mine = (chosen == index).nonzero().flatten()
            if len(mine) > 0:
                result[mine] = expert(tokens[mine])
        return result


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    mixture = Mixture(4, 3)
    with torch.no_grad():
        mixture.router.weight.copy_(torch.eye(4)[:3])
        mixture.router.bias.zero_()
    for step in range(4):
        tokens = torch.rand(9, 4)
        if rank == 1 and step == 2:
            tokens[:, 1] = -5.0
        output = mixture(tokens)
        norm = output.detach().norm()
        dist.all_reduce(norm)
        if rank == 0:
            print(f"step {step} norm {norm.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
