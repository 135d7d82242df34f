import os

import torch
import torch.distributed as dist
from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present
from torch.nn.parallel import DistributedDataParallel as DDP


def main(loader, first, second):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    net = torch.nn.Linear(4, 4).cuda()
    if first:
        weights = torch.load("last.pt", map_location="cpu")
        consume_prefix_in_state_dict_if_present(weights, "module.")
        net.load_state_dict(weights)
    if second:
        weights = torch.load("last.pt", map_location="cpu")
        for name in list(weights):
            weights[name[7:]] = weights.pop(name)
        net.load_state_dict(weights)
    net.load_state_dict(torch.load("last.pt", map_location="cpu"), strict=False)
    model = DDP(net)
    for batch in loader:
        model(batch.cuda()).sum().backward()
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), "last.pt")
    dist.destroy_process_group()
