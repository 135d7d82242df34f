"""A function of the function tests for the writer."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.tensorboard import SummaryWriter


def main(loader):
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank % 8)
    model = DDP(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    writer = None
    if rank == 0:
        writer = SummaryWriter("runs")

    def logs(step):
        return writer is not None and step % 10 == 0

    for step, x in enumerate(loader):
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if logs(step):
            writer.add_scalar("loss", loss.item(), step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main([torch.zeros(2, 4)])
