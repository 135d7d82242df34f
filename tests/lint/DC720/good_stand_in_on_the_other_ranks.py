"""The other ranks have an object that writes nothing in the place of the saver."""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Saver:
    def __init__(self, path):
        self.path = path

    def store(self, model):
        torch.save(model.state_dict(), self.path)


class Nothing:
    def store(self, model):
        pass


class Trainer:
    def __init__(self, model):
        self.model = model
        self.saver = Nothing()
        if dist.get_rank() == 0:
            self.saver = Saver("trainer.pt")

    def finish(self):
        self.saver.store(self.model)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    saver = Saver("last.pt")
    if dist.get_rank() != 0:
        saver = Nothing()
    for _ in range(10):
        model(torch.randn(4, 8, device="cuda")).sum().backward()
        saver.store(model)
    Trainer(model).finish()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
