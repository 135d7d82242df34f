import torch
import torch.distributed as dist
from torch import nn


def average(model):
    size = float(dist.get_world_size())
    for parameter in model.parameters():
        if isinstance(parameter, torch.Tensor):
            dist.all_reduce(parameter.grad.data, op=dist.ReduceOp.SUM)
            parameter.grad.data /= size


def average_others(model):
    for parameter in model.parameters():
        if type(parameter) is torch.Tensor:
            continue
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def average_named(model):
    for parameter in model.parameters():
        if type(parameter) is nn.Parameter:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


def main(way):
    dist.init_process_group("gloo")
    model = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.randn(8, 4, 3):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        if way == "tensors":
            average(model)
        elif way == "others":
            average_others(model)
        else:
            average_named(model)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main("tensors")
