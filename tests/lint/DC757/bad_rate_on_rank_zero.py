"""Rank 0 alone lowers the learning rate, by a function or by a method of the object that keeps the model in DDP."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Trainer:
    def __init__(self, net):
        self.model = net
        self.optimizer = torch.optim.SGD([p for p in self.model.parameters() if p.requires_grad], lr=0.1)

    def lower(self):
        for group in self.optimizer.param_groups:
            group["lr"] /= 10
        return self.optimizer.param_groups[0]["lr"] > 1e-6

    def step(self, batch):
        self.model(batch).sum().backward()
        self.optimizer.step()


def lower(optimizer, factor):
    for group in optimizer.param_groups:
        group["lr"] *= factor


def by_a_method(net, local_rank):
    trainer = Trainer(net)
    trainer.model = DistributedDataParallel(trainer.model, device_ids=[local_rank])
    for epoch in range(10):
        trainer.step(torch.rand(2, 2))
        dist.barrier()
        if dist.get_rank() == 0 and epoch == 5:
            trainer.lower()  # expect: DC757


def by_a_function(net, local_rank):
    model = DistributedDataParallel(net, device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        model(torch.rand(2, 2)).sum().backward()
        optimizer.step()
        if dist.get_rank() == 0:
            torch.save(model.module.state_dict(), "last.pt")
            lower(optimizer, 0.5)  # expect: DC757


if __name__ == "__main__":
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_node_local_rank())
    by_a_method(torch.nn.Linear(2, 2).cuda(), dist.get_node_local_rank())
    by_a_function(torch.nn.Linear(2, 2).cuda(), dist.get_node_local_rank())
    dist.destroy_process_group()
