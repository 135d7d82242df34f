import os

import torch
from torch import distributed as dist
from torch import nn


class Trainer:
    def __init__(self, net: nn.Module, local_rank: int) -> None:
        net.encoder.requires_grad_(False)
        self.model = nn.parallel.DistributedDataParallel(net.to(local_rank), device_ids=[local_rank])
        self.optimizer = torch.optim.AdamW(self.model.parameters())

    def unfreeze(self) -> None:
        self.model.module.encoder.requires_grad_(True)  # expect: DC751

    def fit(self, epochs: int) -> None:
        for epoch in range(epochs):
            if epoch == 5:
                self.unfreeze()
            loss = self.model(torch.randn(4, 16, device="cuda")).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(16, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(x))


if __name__ == "__main__":
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    Trainer(Net(), local_rank).fit(20)
    dist.destroy_process_group()
