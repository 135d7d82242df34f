import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class MovingAverage:
    def __init__(self, model, decay=0.9):
        self.shadow = copy.deepcopy(model)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for mean, value in zip(self.shadow.parameters(), model.parameters()):
            mean.lerp_(value, 1 - self.decay)

    @torch.no_grad()
    def restart(self, model):
        """Continue the training with the averaged weights (lookahead)."""
        for mean, value in zip(self.shadow.parameters(), model.parameters()):
            value.copy_(mean)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(9)
    model = nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 2))
    average = MovingAverage(model)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(50 + rank)
    for epoch in range(2):
        for _ in range(2):
            inputs = torch.randn(8, 4, generator=generator)
            loss = (ddp(inputs) - inputs[:, :2]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0:
                average.update(model)
        average.restart(model)
        if rank == 0:
            print(f"epoch {epoch}: {loss.item():.4f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
