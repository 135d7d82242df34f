import os

import torch
import torch.distributed as dist
import torch.distributed.fsdp as fsdp
from torch import optim


class Trainer:
    def __init__(self, net: torch.nn.Module, local_rank: int) -> None:
        self.model = net
        self.optimizer = optim.Adam(self.model.parameters(), lr=1e-3)  # expect: DC752
        self.scheduler = optim.lr_scheduler.StepLR(self.optimizer, 10)
        self.model = fsdp.FullyShardedDataParallel(self.model, device_id=local_rank)

    def step(self, batch: torch.Tensor) -> None:
        self.model(batch).mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    trainer = Trainer(torch.nn.Linear(16, 4), local_rank)
    for _ in range(10):
        trainer.step(torch.randn(8, 16, device="cuda"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
