import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def linear_with_warmup(optimizer, warmup, total):
    """A rate that rises over the warm-up and falls to zero at the end of the training."""

    def factor(step):
        if step < warmup:
            return (step + 1) / warmup
        return max(0.0, (total - step) / (total - warmup))

    return LambdaLR(optimizer, factor)


def total_steps(loader, epochs):
    """The number of optimizer steps, with the loader of this rank."""
    return len(loader) * epochs


def make_data(size):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(size, 10, generator=generator)
    return TensorDataset(x, x[:, :2].sum(dim=1, keepdim=True))


class Trainer:
    def __init__(self, model, loader, sampler, args):
        self.model, self.loader, self.sampler, self.epochs = model, loader, sampler, args.epochs
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
        total = total_steps(loader, args.epochs)
        self.scheduler = linear_with_warmup(self.optimizer, args.warmup, total)

    def fit(self):
        used = 0.0
        for epoch in range(self.epochs):
            self.sampler.set_epoch(epoch)
            for x, y in self.loader:
                loss = F.mse_loss(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                used = self.scheduler.get_last_lr()[0]
                self.scheduler.step()
            if dist.get_rank() == 0:
                print(f"epoch {epoch}: loss {loss.item():.4f}")
        return used


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--warmup", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = make_data(80)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(10, 24), nn.Tanh(), nn.Linear(24, 1)))
    trainer = Trainer(model, loader, sampler, args)
    print(f"last rate is above zero: {trainer.fit() > 0}")
    del model, trainer
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
