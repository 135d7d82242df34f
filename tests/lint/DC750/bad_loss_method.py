import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Autoencoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = torch.nn.Linear(64, 8)
        self.up = torch.nn.Linear(8, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(torch.relu(self.down(x)))

    def reconstruction_loss(self, x: torch.Tensor) -> torch.Tensor:
        return (self(x) - x).square().mean()


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(Autoencoder().cuda(), device_ids=[local_rank])
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(10):
        x = torch.randn(2, 64, device="cuda")
        loss = model.module.reconstruction_loss(x)  # expect: DC750
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
