"""All ranks lower the rate, or rank 0 lowers that of another optimizer, or broadcasts what it has decided."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def lower(optimizer, factor):
    for group in optimizer.param_groups:
        group["lr"] *= factor


def everywhere(net, local_rank):
    model = DistributedDataParallel(net, device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        model(torch.rand(2, 2)).sum().backward()
        optimizer.step()
        if dist.get_rank() == 0:
            print(optimizer.param_groups[0]["lr"])
        lower(optimizer, 0.5)


def another(net, local_rank):
    model = DistributedDataParallel(net, device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    probe = torch.nn.Linear(2, 2)
    own = torch.optim.SGD(probe.parameters(), lr=0.1)
    for epoch in range(10):
        model(torch.rand(2, 2)).sum().backward()
        optimizer.step()
        if dist.get_rank() == 0:
            probe(torch.rand(2, 2)).sum().backward()
            own.step()
            lower(own, 0.5)


def announced(net, local_rank):
    model = DistributedDataParallel(net, device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        model(torch.rand(2, 2)).sum().backward()
        optimizer.step()
        if dist.get_rank() == 0:
            lower(optimizer, 0.5)
        rate = torch.tensor(optimizer.param_groups[0]["lr"]).cuda()
        dist.broadcast(rate, src=0)
        optimizer.param_groups[0]["lr"] = rate.item()


if __name__ == "__main__":
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_node_local_rank())
    for function in (everywhere, another, announced):
        function(torch.nn.Linear(2, 2).cuda(), dist.get_node_local_rank())
    dist.destroy_process_group()
