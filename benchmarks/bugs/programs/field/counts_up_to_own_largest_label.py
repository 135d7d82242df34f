import argparse
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def reduce_sum(tensor):
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM)
    return tensor


def class_weights(loader, classes, smoothing=1.0):
    """Return weights that make up for rare classes, from the labels of all ranks."""
    labels = torch.cat([labels for _, labels in loader])
    counts = reduce_sum(torch.bincount(labels).float())
    weights = counts.sum() / (counts + smoothing)
    return nn.functional.pad(weights, (0, classes - len(weights)), value=1.0)


def build_data(size, classes):
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, classes - 1, (size,), generator=generator)
    # the rarest class has one sample
    labels[5] = classes - 1
    x = torch.randn(size, 6, generator=generator) + labels[:, None]
    return TensorDataset(x, labels)


def train(model, loader, criterion, args):
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / args.warmup))
    for epoch in range(args.epochs):
        loader.sampler.set_epoch(epoch)
        for index, (x, labels) in enumerate(loader):
            is_last = (index + 1) % args.accumulate == 0
            with nullcontext() if is_last else model.no_sync():
                loss = criterion(model(x), labels) / args.accumulate
                loss.backward()
            if is_last:
                optimizer.step()
                optimizer.zero_grad()
                warmup.step()
        mean = reduce_sum(loss.detach() * args.accumulate) / dist.get_world_size()
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {mean.item():.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--classes", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = build_data(64, args.classes)
    loader = DataLoader(dataset, batch_size=args.batch_size, sampler=DistributedSampler(dataset))
    criterion = nn.CrossEntropyLoss(weight=class_weights(loader, args.classes))
    model = DDP(nn.Linear(6, args.classes))
    train(model, loader, criterion, args)
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
