import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Checkpointer:
    """Keeps checkpoints, if this process is the one that keeps them."""

    def __init__(self, model, folder, save_to_disk):
        self.model = model
        self.folder = folder
        self.save_to_disk = save_to_disk

    def save(self, name):
        if not self.save_to_disk:
            return
        torch.save(self.model.state_dict(), os.path.join(self.folder, f"{name}.pth"))


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    keeper = Checkpointer(model.module, "out", dist.get_rank() == 0)
    for step in range(10):
        model(torch.randn(4, 8, device="cuda")).sum().backward()
        keeper.save(f"model_{step:04d}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
