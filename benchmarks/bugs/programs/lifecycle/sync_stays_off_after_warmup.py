import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Trainer:
    def __init__(self, network, optimizer, accumulate):
        self.network, self.optimizer, self.accumulate = network, optimizer, accumulate
        self.seen = 0

    def train_on(self, x, wanted):
        self.seen += 1
        is_last = self.seen % self.accumulate == 0
        if not is_last:
            self.network.require_backward_grad_sync = False
        loss = nn.functional.cross_entropy(self.network(x), wanted) / self.accumulate
        loss.backward()
        if is_last:
            self.optimizer.step()
            self.optimizer.zero_grad()
        return loss.item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    network = DistributedDataParallel(nn.Linear(10, 4))
    trainer = Trainer(network, torch.optim.SGD(network.parameters(), lr=0.2, momentum=0.9), accumulate=2)
    torch.manual_seed(11 + rank)
    for _ in range(10):
        loss = trainer.train_on(torch.randn(6, 10), torch.randint(4, (6,)))
    print(f"rank {rank}: {loss:.3f}")
    del network, trainer
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
