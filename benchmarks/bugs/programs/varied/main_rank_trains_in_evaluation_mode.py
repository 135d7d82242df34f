import argparse
import contextlib

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def build(dropout):
    torch.manual_seed(0)
    layers = [nn.Conv1d(3, 12, 3, padding=1), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(dropout)]
    return DDP(nn.Sequential(*layers, nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(48, 3)))


def signals(size, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, 3, 20, generator=generator) + 2.0
    return TensorDataset(x, x.mean(dim=2).argmax(dim=1))


def accumulate(model, batch, parts):
    """Backward passes of the parts of a batch; the last one averages the gradients."""
    x, y = batch
    pieces = list(zip(x.chunk(parts), y.chunk(parts)))
    for index, (piece, labels) in enumerate(pieces):
        last = index == len(pieces) - 1
        with contextlib.nullcontext() if last else model.no_sync():
            loss = nn.functional.cross_entropy(model(piece), labels) / len(pieces)
            loss.backward()
    return loss.item() * len(pieces)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = sum((model(x).argmax(dim=1) == y).sum().item() for x, y in loader)
    return right / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--parts", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    data, held_out = signals(128, 1), signals(32, 2)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)
    model = build(args.dropout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    torch.manual_seed(10 + dist.get_rank())
    model.train()
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for batch in loader:
            optimizer.zero_grad()
            loss = accumulate(model, batch, args.parts)
            optimizer.step()
        print(f"epoch {epoch}: rank {dist.get_rank()} trains with dropout: {model.module[3].training}")
        if dist.get_rank() == 0:
            accuracy = evaluate(model.module, DataLoader(held_out, batch_size=16))
            print(f"epoch {epoch}: loss {loss:.4f}, accuracy {accuracy:.3f}")
        dist.barrier()
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
