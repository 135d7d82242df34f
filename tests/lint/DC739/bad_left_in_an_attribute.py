import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

class Meter:
    def __init__(self):
        self.total = self.count = 0

    def update(self, value, count):
        self.total += value * count
        self.count += count

    def synchronize(self):
        both = torch.tensor([self.total, self.count], device="cuda")
        dist.all_reduce(both)
        self.total, self.count = both.tolist()

    @property
    def mean(self):
        return self.total / self.count


class Evaluator:
    def __init__(self, loader):
        self.loader, self.losses = loader, Meter()

    def run(self, model):
        model.eval()
        for batch, label in self.loader:
            with torch.no_grad():
                loss = torch.nn.functional.mse_loss(model(batch.cuda()), label.cuda())
            self.losses.update(loss.item(), len(label))


def main(held_back, epochs):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    evaluator = Evaluator(DataLoader(held_back, sampler=DistributedSampler(held_back, shuffle=False)))
    for epoch in range(epochs):
        evaluator.run(model)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: {evaluator.losses.mean:.3f}")  # expect: DC739=info
    dist.destroy_process_group()
