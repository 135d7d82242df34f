import argparse
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class AveragedWeights:
    """A moving average of the trained weights; rank 0 alone keeps it, for validation and the checkpoint."""

    def __init__(self, model, decay):
        self.decay = decay
        self.values = [parameter.detach().clone() for parameter in model.parameters()]
        self.trained = []

    @torch.no_grad()
    def update(self, model):
        for value, parameter in zip(self.values, model.parameters()):
            value.lerp_(parameter, 1 - self.decay)

    @torch.no_grad()
    def apply(self, model):
        self.trained = [parameter.detach().clone() for parameter in model.parameters()]
        for value, parameter in zip(self.values, model.parameters()):
            parameter.copy_(value)

    @torch.no_grad()
    def restore(self, model):
        for value, parameter in zip(self.trained, model.parameters()):
            parameter.copy_(value)


@torch.no_grad()
def validate(model, average, held_out, best, path):
    x, y = held_out
    average.apply(model)
    loss = nn.functional.mse_loss(model(x), y).item()
    if loss > best - 0.01:
        average.restore(model)
        return best
    torch.save(model.state_dict(), path)
    average.restore(model)
    return loss


def samples(size, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, 6, generator=generator)
    y = x[:, :1] * x[:, 1:2] + 0.3 * torch.randn(size, 1, generator=generator)
    return x, y


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(2)
    data = TensorDataset(*samples(64, 1))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    average = AveragedWeights(model.module, decay=0.9) if rank == 0 else None
    best, path = float("inf"), Path(tempfile.mkdtemp()) / "best.pt"
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if average is not None:
                average.update(model.module)
        if average is not None:
            best = validate(model.module, average, samples(64, 9), best, path)
            print(f"epoch {epoch}: loss {loss.item():.4f}, best {best:.4f}")
        dist.barrier()
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
