import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Subset, TensorDataset


def reduce_sum(tensor):
    tensor = tensor.detach().clone()
    dist.all_reduce(tensor)
    return tensor


def own_files(dataset, rank, world_size, per_file=10):
    """Return the samples of every n-th file; the last rank may have a file less."""
    starts = range(rank * per_file, len(dataset), world_size * per_file)
    return Subset(dataset, [index for start in starts for index in range(start, min(start + per_file, len(dataset)))])


class Meter:
    def __init__(self):
        self.total = torch.zeros(2)

    def update(self, loss, count):
        self.total += torch.tensor([loss.item() * count, float(count)])

    def mean(self):
        loss, count = reduce_sum(self.total).tolist()
        return loss / count


def train_epoch(model, loader, optimizer, log_every):
    meter = Meter()
    with Join([model]):
        for step, (x, y) in enumerate(loader):
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meter.update(loss, len(x))
            if step % log_every == 0:
                print(f"step {step}: loss {meter.mean():.4f}")
    return meter.mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=5)
    parser.add_argument("--log-every", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(6)
    x = torch.randn(50, 3)
    dataset = own_files(TensorDataset(x, x.sum(dim=1, keepdim=True)), rank, world_size)
    loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True)
    model = DDP(nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        loss = train_epoch(model, loader, optimizer, args.log_every)
        if rank == 0:
            print(f"epoch {epoch}: loss {loss:.4f}")
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
