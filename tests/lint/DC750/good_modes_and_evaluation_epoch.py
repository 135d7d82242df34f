import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Captioner(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 4)
        self.kind = "caption"

    def mode(self, kind: str) -> None:
        self.kind = kind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).mean()


@torch.no_grad()
def validate(model: DistributedDataParallel, batches: list) -> float:
    model.module.mode("match")
    total = 0.0
    for batch in batches:
        loss = model.module(batch)
        total += loss.item()
    return total


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DistributedDataParallel(Captioner().cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = [torch.randn(8, 16, device="cuda") for _ in range(4)]
    for _ in range(10):
        model.module.mode("caption")
        for batch in batches:
            optimizer.zero_grad()
            model(batch).backward()
            optimizer.step()
        print(validate(model, batches))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
