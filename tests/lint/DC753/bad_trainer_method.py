import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.fsdp import FullyShardedDataParallel


class Trainer:
    def __init__(self, local_rank: int, max_norm: float) -> None:
        self.max_norm = max_norm
        self.model = FullyShardedDataParallel(nn.Linear(16, 4), device_id=local_rank)
        self.optimizer = torch.optim.AdamW(self.model.parameters())

    def step(self, batch: torch.Tensor) -> None:
        self.model(batch).mean().backward()
        if self.max_norm > 0:
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)  # expect: DC753
            print(float(norm))
        self.optimizer.step()
        self.optimizer.zero_grad()


if __name__ == "__main__":
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    trainer = Trainer(local_rank, 1.0)
    for _ in range(10):
        trainer.step(torch.randn(8, 16, device="cuda"))
    dist.destroy_process_group()
