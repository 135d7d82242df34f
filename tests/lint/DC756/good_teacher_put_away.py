import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = torch.nn.Linear(16, 16)
        self.head = torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.backbone(x)))


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    teacher = DDP(Net().cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(teacher.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        teacher(torch.randn(8, 16, device="cuda")).mean().backward()
        optimizer.step()
    teacher.module.cpu()
    student = DDP(Net().cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        student(torch.randn(8, 16, device="cuda")).mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
