import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


@dataclass
class Settings:
    width: int = 8


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    settings = Settings()
    if os.path.exists("last.pt"):
        settings = torch.load("last.pt", map_location="cpu")["settings"]  # expect: DC611
    model = DDP(torch.nn.Linear(settings.width, 8).cuda(), device_ids=[local_rank])
    model(torch.randn(4, settings.width, device="cuda")).mean().backward()
    if dist.get_rank() == 0:
        torch.save({"model": model.module.state_dict(), "settings": Settings()}, "last.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
