import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main(loader, folder, resume):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    if resume:
        model.load_state_dict(torch.load(os.path.join(folder, "last.pt"), map_location="cpu"))  # expect: DC614=warning
    for batch in loader:
        model(batch.cuda()).sum().backward()
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), os.path.join(folder, "last.pt"))
    dist.destroy_process_group()
