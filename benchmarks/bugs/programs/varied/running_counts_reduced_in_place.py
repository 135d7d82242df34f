import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Digits(Dataset):
    """Images of noise, whose brightest quarter is the label."""

    def __init__(self, size):
        self.images = torch.rand(size, 1, 8, 8, generator=torch.Generator().manual_seed(6))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        quarters = nn.functional.avg_pool2d(image, 4).flatten()
        return image, quarters.argmax()


class RunningAccuracy:
    """Correct and all samples since the last reset, over all ranks."""

    def __init__(self):
        self.counts = torch.zeros(2)

    def reset(self):
        self.counts.zero_()

    def update(self, scores, labels):
        self.counts[0] += (scores.argmax(dim=1) == labels).sum()
        self.counts[1] += len(labels)

    def compute(self):
        counts = self.counts
        dist.all_reduce(counts)
        return counts[0].item() / counts[1].item(), int(counts[1].item())


def build():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(32, 4))
    return DDP(model)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--report-every", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.3)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    data = Digits(144)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", factor=0.5, patience=1)
    accuracy = RunningAccuracy()
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        accuracy.reset()
        for step, (images, labels) in enumerate(loader):
            scores = model(images)
            loss = nn.functional.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            accuracy.update(scores.detach(), labels)
            if (step + 1) % args.report_every == 0:
                value, samples = accuracy.compute()
        scheduler.step(value)
        if dist.get_rank() == 0:
            rate = optimizer.param_groups[0]["lr"]
            print(f"epoch {epoch}: loss {loss.item():.4f}, rate {rate}")
            print(f"epoch {epoch}: accuracy of {samples} samples {value:.3f}")
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
