"""One method trains and evaluates: only the sampler of the training gets the epoch, and only its order matters."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from tqdm import tqdm


class Trainer:
    def __init__(self, model, train_loader, val_loader):
        self.model, self.train_loader, self.val_loader = model, train_loader, val_loader
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def one_epoch(self, epoch, training):
        if training:
            loader = self.train_loader
            loader.sampler.set_epoch(epoch)
        else:
            loader = self.val_loader
        if dist.get_rank() == 0:
            loader = tqdm(loader)
        for (batch,) in loader:
            loss = self.model(batch.cuda()).sum()
            if training:
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()

    def train(self):
        for epoch in range(10):
            self.one_epoch(epoch, training=True)
            self.one_epoch(epoch, training=False)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    train_data, val_data = TensorDataset(torch.randn(1000, 8)), TensorDataset(torch.randn(100, 8))
    train_sampler, val_sampler = DistributedSampler(train_data), DistributedSampler(val_data)
    model = DDP(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    Trainer(
        model,
        DataLoader(train_data, batch_size=32, sampler=train_sampler),
        DataLoader(val_data, batch_size=32, sampler=val_sampler),
    ).train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
