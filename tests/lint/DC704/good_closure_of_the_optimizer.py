"""The first rank makes the same forward passes through its optimizer, which calls the function that it is given."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def step(model, optimizer, batch, signal):
    def closure():
        loss = model(batch).mean()
        loss.backward()
        return loss

    if dist.get_rank() == 0:
        optimizer.step(closure)
        dist.broadcast(signal.fill_(0), src=0)
    else:
        while True:
            dist.broadcast(signal, src=0)
            if signal.item() == 0:
                break
            closure()


def main():
    dist.init_process_group("gloo")
    model = DDP(torch.nn.BatchNorm1d(8))
    step(model, torch.optim.LBFGS(model.parameters()), torch.rand(4, 8), torch.ones(1))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
