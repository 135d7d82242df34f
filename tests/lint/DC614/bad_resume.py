import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main(loader, resume):
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    net = torch.nn.Linear(4, 4).cuda()
    if resume:
        net.load_state_dict(torch.load("last.pt", map_location="cpu")["model"])  # expect: DC614=warning
    model = DDP(net, device_ids=[local_rank])
    for batch in loader:
        model(batch.cuda()).sum().backward()
    if dist.get_rank() == 0:
        torch.save({"model": model.state_dict()}, "last.pt")
    dist.destroy_process_group()
