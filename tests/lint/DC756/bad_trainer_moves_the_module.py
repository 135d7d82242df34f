import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Trainer:
    def __init__(self, net: torch.nn.Module, local_rank: int) -> None:
        self.device = torch.device("cuda", local_rank)
        self.model = DistributedDataParallel(net.to(self.device), device_ids=[local_rank])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def checkpoint(self, path: str) -> None:
        self.model.module.to("cpu")  # expect: DC756
        if dist.get_rank() == 0:
            torch.save(self.model.module.state_dict(), path)
        self.model.module.to(self.device)

    def fit(self) -> None:
        for epoch in range(10):
            loss = self.model(torch.randn(8, 16, device=self.device)).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.checkpoint(f"epoch{epoch}.pt")


if __name__ == "__main__":
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    Trainer(torch.nn.Linear(16, 4), local_rank).fit()
    dist.destroy_process_group()
