"""One layer deep inside keeps a running mean; another network gets the class of the layer."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Scale(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return value - self.mean


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), Scale(8))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.layers(value)


class Convolutional(nn.Module):
    def __init__(self, norm=nn.BatchNorm2d) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3), norm(8))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.layers(value)


def main() -> None:
    dist.init_process_group("gloo")
    model, images = DDP(Network()), DDP(Convolutional())
    with torch.no_grad():
        if dist.get_rank() == 0:
            print(model(torch.rand(4, 8)))  # expect: DC704
        if dist.get_rank() == 0:
            print(images(torch.rand(4, 3, 8, 8)))  # expect: DC704
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
