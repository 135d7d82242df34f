import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.swa_utils import AveragedModel, update_bn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def make_data(size):
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(size, 8, generator=generator) * torch.linspace(0.2, 3.0, size).unsqueeze(1)
    return TensorDataset(x, (x[:, 0] > 0).long())


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        return self.head(F.relu(self.norm(self.body(x))))


def recompute_statistics(averaged, loader):
    """The statistics of batch normalization belong to the averaged weights, and are computed once more."""
    update_bn(loader, averaged)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = torch.zeros(2)
    for x, y in loader:
        right += torch.tensor([(model(x).argmax(dim=1) == y).sum(), len(y)])
    dist.all_reduce(right)
    return (right[0] / right[1]).item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--average-from", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = make_data(64)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)
    model = DDP(Network())
    averaged = AveragedModel(model.module)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        if epoch >= args.average_from:
            averaged.update_parameters(model.module)
            recompute_statistics(averaged, loader)
            print(f"epoch {epoch}: accuracy of the average {evaluate(averaged, loader):.3f}")
    means = [torch.empty(16) for _ in range(dist.get_world_size())]
    dist.all_gather(means, averaged.module.norm.running_mean)
    print(f"statistics agree: {all(torch.equal(mean, means[0]) for mean in means)}")
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
