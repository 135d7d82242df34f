import torch
import torch.distributed as dist
from torch import Tensor, nn


def main():
    dist.init_process_group("gloo")
    model = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.randn(8, 4, 3):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            if type(parameter) != Tensor:
                continue
            dist.all_reduce(parameter.grad)  # expect: DC758
            parameter.grad /= dist.get_world_size()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
