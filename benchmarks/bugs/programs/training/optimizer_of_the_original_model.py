import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])
        self.norm = nn.LayerNorm(width)

    def forward(self, inputs):
        for layer in self.layers:
            inputs = inputs + torch.tanh(layer(inputs))
        return self.norm(inputs)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    pretrained = Encoder(8)
    model = copy.deepcopy(pretrained)
    optimizer = torch.optim.AdamW(pretrained.parameters(), lr=1e-3)
    ddp = DistributedDataParallel(model)
    generator = torch.Generator().manual_seed(rank)
    for step in range(5):
        inputs = torch.randn(16, 8, generator=generator)
        with torch.no_grad():
            targets = pretrained(inputs.flip(1))
        loss = nn.functional.mse_loss(ddp(inputs), targets)
        optimizer.zero_grad()
        model.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
