import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)

    def save(self, path: str) -> None:
        torch.save(self, path)  # expect: DC615


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    net = Net().cuda()
    model = DistributedDataParallel(net, device_ids=[local_rank])
    model(torch.randn(8, 16, device="cuda")).mean().backward()
    if dist.get_rank() == 0:
        net.save("model.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
