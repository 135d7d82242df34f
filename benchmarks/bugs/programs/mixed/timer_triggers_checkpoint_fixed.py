import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Clock:
    """Seconds of training; machines are not equally fast."""

    def __init__(self, rank):
        self.now, self.step = 0.0, 1.0 + 0.7 * rank

    def tick(self):
        self.now += self.step
        return self.now


class Saver:
    def __init__(self, every, path):
        self.every, self.path, self.last = every, path, 0.0

    def due(self, now):
        return now - self.last >= self.every

    def save(self, model, now):
        self.last = now
        if dist.get_rank() == 0:
            torch.save(model.state_dict(), self.path)
        dist.barrier()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    ddp = DistributedDataParallel(nn.Linear(4, 4))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    clock, saver = Clock(rank), Saver(3.0, "last.pt")
    for step in range(8):
        now = clock.tick()
        loss = ddp(torch.randn(6, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        decided = torch.tensor(float(saver.due(now)))
        dist.broadcast(decided, src=0)
        due = bool(decided)
        if due:
            saver.save(ddp.module, now)
    print(f"rank {rank} is done")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
