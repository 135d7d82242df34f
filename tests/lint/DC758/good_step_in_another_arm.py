import torch
import torch.distributed as dist
from torch import nn


def average(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    model = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    # fills the buffers of the optimizer
    model(torch.randn(4, 3)).mean().backward()
    optimizer.step()
    for x in torch.randn(8, 4, 3):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        if dist.get_world_size() == 1:
            optimizer.step()
        else:
            average(model)
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
