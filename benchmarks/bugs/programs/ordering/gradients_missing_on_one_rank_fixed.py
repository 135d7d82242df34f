import os

import torch
import torch.distributed as dist
import torch.nn as nn


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.boxes = nn.Linear(8, 4)
        self.masks = nn.Linear(8, 2)

    def forward(self, x, with_masks):
        hidden = self.body(x)
        loss = self.boxes(hidden).square().mean()
        return loss + self.masks(hidden).square().mean() if with_masks else loss


def main():
    rank, world_size = init_distributed()
    torch.manual_seed(0)
    model = TwoHeads()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    annotated = [[True, True, True], [True, False, True]][rank]
    for with_masks in annotated:
        optimizer.zero_grad()
        model(torch.randn(4, 8), with_masks).backward()
        for parameter in model.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)
            parameter.grad /= world_size
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
