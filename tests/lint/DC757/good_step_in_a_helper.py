import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def step_and_measure(model, optimizer):
    before = [one.detach().clone() for one in model.parameters()]
    optimizer.step()
    return [float((one - old).norm()) for one, old in zip(model.parameters(), before)]


def main(writer):
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = DDP(torch.nn.Linear(4, 4).cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(100):
        model(torch.randn(4, 4, device="cuda")).sum().backward()
        if dist.get_rank() == 0 and step % 20 == 0:
            writer.add_scalars("change", step_and_measure(model, optimizer), step)
        else:
            optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()
