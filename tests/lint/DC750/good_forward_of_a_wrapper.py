import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class ScaledOutput(torch.nn.Module):
    """A wrapper of our own: its attribute is called module, and DDP is around it."""

    def __init__(self, module: torch.nn.Module, scale: float) -> None:
        super().__init__()
        self.module = module
        self.scale = scale

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.module(*inputs) * self.scale


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = ScaledOutput(torch.nn.Linear(16, 4), 0.5).cuda()
    model = DistributedDataParallel(model, device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(100):
        loss = model(torch.randn(8, 16, device="cuda")).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
