import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Trainer:
    def __init__(self, model, optimizer, save_every):
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.rank = int(os.environ["RANK"])
        self.save_every = save_every
        self.optimizer = optimizer
        self.model = DDP(model.to(self.local_rank), device_ids=[self.local_rank])

    def _save_checkpoint(self, epoch):
        checkpoint = self.model.module.state_dict()
        torch.save(checkpoint, "checkpoint.pt")  # expect: DC720
        if self.rank == 0:
            print(f"epoch {epoch}: saved")

    def _run_epoch(self, epoch):
        self.optimizer.zero_grad()
        self.model(torch.randn(8, 20, device=self.local_rank)).sum().backward()
        self.optimizer.step()

    def train(self, epochs):
        for epoch in range(epochs):
            self._run_epoch(epoch)
            if epoch % self.save_every == 0:
                self._save_checkpoint(epoch)


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    net = torch.nn.Linear(20, 1)
    Trainer(net, torch.optim.SGD(net.parameters(), lr=1e-3), save_every=5).train(50)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
