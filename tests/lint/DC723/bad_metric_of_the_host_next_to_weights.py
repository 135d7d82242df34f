import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    if os.path.exists("latest.pt"):
        model.load_state_dict(torch.load("latest.pt")["model"])  # expect: DC723=warning
    loss = model(torch.randn(4, 8, device="cuda")).sum()
    loss.backward()
    if dist.get_rank() == 0:
        torch.save({"model": model.state_dict(), "loss": loss.detach().cpu()}, "latest.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
