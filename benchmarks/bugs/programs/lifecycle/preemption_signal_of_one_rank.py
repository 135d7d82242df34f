import os
import signal

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Preemption:
    def __init__(self):
        self.requested = False
        signal.signal(signal.SIGUSR1, self.request)

    def request(self, number, frame):
        self.requested = True

    def due(self):
        return self.requested


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    preemption = Preemption()
    torch.manual_seed(7)
    network = DistributedDataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for step in range(8):
        x = torch.randn(6, 4)
        loss = (network(x) - x[:, :2]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 1 and step == 3:
            # what a scheduler does to the node of this rank
            os.kill(os.getpid(), signal.SIGUSR1)
        if preemption.due():
            break
    dist.barrier()
    if rank == 0:
        torch.save(network.module.state_dict(), "last.pt")
        print(f"saved after step {step}")
    del network
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
