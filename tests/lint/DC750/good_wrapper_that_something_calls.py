import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def train(model, optimizer):
    for _ in range(10):
        optimizer.zero_grad()
        model(torch.randn(4, 8).cuda()).mean().backward()
        optimizer.step()


def evaluate(model):
    model.eval()
    with torch.no_grad():
        return model(torch.randn(4, 8).cuda()).mean()


def handed_on(local_rank):
    net = nn.Linear(8, 1).cuda()
    model = DistributedDataParallel(net, device_ids=[local_rank])
    train(model, torch.optim.SGD(net.parameters(), lr=0.1))
    evaluate(net)


def of_two_arms(local_rank, distributed):
    net = nn.Linear(8, 1).cuda()
    if distributed:
        model = DistributedDataParallel(net, device_ids=[local_rank])
    else:
        model = net
    train(model, torch.optim.SGD(net.parameters(), lr=0.1))


def kept_in_a_list(local_rank):
    net = nn.Linear(8, 1).cuda()
    model = DistributedDataParallel(net, device_ids=[local_rank])
    for one in [model]:
        train(one, torch.optim.SGD(one.parameters(), lr=0.1))
    evaluate(model.module)


def evaluated_only(local_rank):
    net = nn.Linear(8, 1).cuda()
    model = DistributedDataParallel(net, device_ids=[local_rank])
    return evaluate(model.module)


def read_by_an_inner_function(local_rank):
    net = nn.Linear(8, 1).cuda()
    model = DistributedDataParallel(net, device_ids=[local_rank])

    def step():
        model(torch.randn(4, 8).cuda()).mean().backward()

    step()
    evaluate(model.module)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    handed_on(local_rank)
    of_two_arms(local_rank, dist.is_initialized())
    kept_in_a_list(local_rank)
    evaluated_only(local_rank)
    read_by_an_inner_function(local_rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
