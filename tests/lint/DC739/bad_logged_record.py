import gc
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


class Trainer:
    """Reports what its own rank found; ``gather`` and ``collect`` here are calls within one process."""

    def __init__(self, model, loader, held_back, rank, log):
        self.model, self.loader, self.held_back = model, loader, held_back
        self.rank, self.log = rank, log

    def train(self, epochs):
        optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        for epoch in range(epochs):
            self.model.train()
            self.loader.sampler.set_epoch(epoch)
            for batch, label in self.loader:
                loss = torch.nn.functional.cross_entropy(self.model(batch.cuda()), label.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            gc.collect()
            self.validate(epoch)

    def validate(self, epoch):
        self.model.eval()
        hits, count = 0, 0
        for batch, label in self.held_back:
            scores = self.model(batch.cuda()).softmax(1)
            hits += scores.gather(1, label.cuda()[:, None]).sum().item()
            count += len(label)
        if self.rank == 0:
            record = {"epoch": epoch}
            record.update(accuracy=hits / count)
            self.log.log_val(record)  # expect: DC739=info


def main(train_data, held_back, log):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    loader = DataLoader(train_data, sampler=DistributedSampler(train_data))
    rest = DataLoader(held_back, sampler=DistributedSampler(held_back, shuffle=False))
    Trainer(model, loader, rest, dist.get_rank(), log).train(3)
    dist.destroy_process_group()
