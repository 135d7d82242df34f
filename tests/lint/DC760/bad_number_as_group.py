import torch
import torch.distributed as dist
from torch import nn


def main():
    dist.init_process_group("gloo")
    model = nn.Linear(3, 3)
    for x in torch.randn(8, 4, 3):
        model.zero_grad()
        model(x).square().mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM, group=0)  # expect: DC760=error
            parameter.grad /= dist.get_world_size()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
