"""The buffers of the model are sent in each forward pass, without gradients as well."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Generator(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.BatchNorm1d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


def main() -> None:
    dist.init_process_group("nccl")
    rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    generator = DistributedDataParallel(Generator().cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(generator.parameters(), lr=0.1)
    for step in range(100):
        optimizer.zero_grad()
        generator(torch.randn(4, 8, 16, device="cuda")).mean().backward()
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            with torch.no_grad():
                print(generator(torch.randn(1, 8, 16, device="cuda")).mean())  # expect: DC704


if __name__ == "__main__":
    main()
