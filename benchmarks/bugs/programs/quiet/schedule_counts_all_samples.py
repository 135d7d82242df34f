import argparse
import math

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def cosine_with_warmup(optimizer, warmup, total, floor=0.01):
    """Linear warm-up, then a cosine down to ``floor`` of the learning rate."""

    def factor(step):
        if step < warmup:
            return (step + 1) / warmup
        progress = min(1.0, (step - warmup) / max(1, total - warmup))
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


class Trainer:
    def __init__(self, network, dataset, args):
        self.args = args
        self.sampler = DistributedSampler(dataset, shuffle=True, drop_last=True)
        self.loader = DataLoader(dataset, batch_size=args.batch_size, sampler=self.sampler, drop_last=True)
        self.model = DDP(network)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.lr)
        steps_per_epoch = len(dataset) // args.batch_size
        self.scheduler = cosine_with_warmup(self.optimizer, args.warmup, steps_per_epoch * args.epochs)

    def run_epoch(self, epoch):
        self.sampler.set_epoch(epoch)
        total = 0.0
        for x, y in self.loader:
            loss = nn.functional.huber_loss(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            self.optimizer.zero_grad(set_to_none=True)
            total += loss.item()
        return total / len(self.loader)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(6)
    x = torch.randn(96, 5)
    dataset = TensorDataset(x, x.norm(dim=1, keepdim=True))
    trainer = Trainer(nn.Sequential(nn.Linear(5, 24), nn.ReLU(), nn.Linear(24, 1)), dataset, args)
    for epoch in range(args.epochs):
        mean = torch.tensor(trainer.run_epoch(epoch))
        dist.all_reduce(mean)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {mean.item() / dist.get_world_size():.4f}")
    print(f"final lr {trainer.optimizer.param_groups[0]['lr'] * 1000:.5f}")
    del trainer.model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
