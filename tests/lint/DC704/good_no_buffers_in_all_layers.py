"""All layers are seen, and none has a buffer: without gradients nothing is sent."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(nn.Linear(width, width), nn.GELU())

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return value + self.layers(self.norm(value))


class Network(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(8) for _ in range(depth)])
        for layer in self.modules():
            if isinstance(layer, (nn.Linear, nn.BatchNorm2d)):
                nn.init.ones_(layer.weight)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            value = block(value)
        return value


@torch.no_grad()
def validate(model: nn.Module, batch: torch.Tensor) -> None:
    print(model(batch).mean())


def main() -> None:
    dist.init_process_group("gloo")
    model = DDP(Network(2))
    if dist.get_rank() == 0:
        validate(model, torch.rand(4, 8))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
