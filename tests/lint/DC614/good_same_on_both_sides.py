import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main(loader, resume, other):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    net = torch.nn.Linear(4, 4).cuda()
    if resume:
        net.load_state_dict(torch.load("inner.pt", map_location="cpu")["model"])
    model = DDP(net)
    if other:
        model.load_state_dict(torch.load("outer.pt", map_location="cpu"))
    for batch in loader:
        model(batch.cuda()).sum().backward()
    if dist.get_rank() == 0:
        torch.save({"model": model.module.state_dict()}, "inner.pt")
        torch.save(model.state_dict(), "outer.pt")
    dist.destroy_process_group()
