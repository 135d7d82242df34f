import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

LEVELS = 10


class Denoiser(nn.Module):
    """Predicts the noise of points on a ring."""

    def __init__(self, width):
        super().__init__()
        self.level = nn.Embedding(LEVELS, width)
        self.enter, self.leave = nn.Linear(2, width), nn.Linear(width, 2)

    def forward(self, points, level):
        return self.leave(torch.relu(self.enter(points) + self.level(level)))


def shares(level):
    """How much of a point and how much noise there is at a level."""
    kept = torch.cos((level + 1) / (LEVELS + 1) * torch.pi / 2).unsqueeze(1)
    return kept, (1 - kept**2).sqrt()


def loss_of(model, points):
    level = torch.randint(LEVELS, (len(points),))
    noise = torch.randn_like(points)
    kept, added = shares(level)
    return nn.functional.mse_loss(model(kept * points + added * noise, level), noise), noise


@torch.no_grad()
def preview(model, count, seed=1234):
    """The same noise after each epoch, so that pictures can be compared."""
    points = torch.randn(count, 2, generator=torch.Generator().manual_seed(seed))
    for step in reversed(range(LEVELS)):
        level = torch.full((count,), step)
        kept, added = shares(level)
        points = (points - added * model(points, level)) / kept.clamp(min=0.3)
    return points


def ring(size):
    angle = torch.rand(size, generator=torch.Generator().manual_seed(8)) * 2 * torch.pi
    return TensorDataset(torch.stack([angle.cos(), angle.sin()], dim=1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(100 + dist.get_rank())
    data = ring(128)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)
    model = DDP(Denoiser(16))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for (points,) in loader:
            loss, noise = loss_of(model, points)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        picture = preview(model.module, 4)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {loss.item():.4f}, radius {picture.norm(dim=1).mean().item():.3f}")
    drawn = [torch.empty_like(noise) for _ in range(dist.get_world_size())]
    dist.all_gather(drawn, noise)
    print(f"noise of the ranks is the same: {all(torch.equal(each, noise) for each in drawn)}")
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
