import os

import torch
import torch.distributed as dist


def evaluate(model, data):
    with torch.no_grad():
        return model(data.cuda()).norm().item()  # expect: DC704


def main(data, half, epochs):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)).cuda()
    if half:
        from apex.parallel import DistributedDataParallel

        model = DistributedDataParallel(model)
    else:
        model = torch.nn.parallel.DistributedDataParallel(model)
    for epoch in range(epochs):
        model(data.cuda()).sum().backward()
        if dist.get_rank() == 0:
            print(epoch, evaluate(model, data))
    dist.destroy_process_group()
