import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Codebook(nn.Module):
    """Vectors that follow the features assigned to them, as in VQ-VAE with moving averages."""

    def __init__(self, codes, width, decay=0.8):
        super().__init__()
        self.decay = decay
        self.vectors = nn.Parameter(torch.randn(codes, width), requires_grad=False)

    @torch.no_grad()
    def update(self, features, nearest):
        members = nn.functional.one_hot(nearest, len(self.vectors)).float()
        counts, sums = members.sum(dim=0), members.t() @ features
        used = counts > 0
        means = sums[used] / counts[used].unsqueeze(1)
        self.vectors.data[used] = self.decay * self.vectors[used] + (1 - self.decay) * means

    def forward(self, features):
        nearest = torch.cdist(features, self.vectors).argmin(dim=1)
        if self.training:
            self.update(features.detach(), nearest)
        quantized = self.vectors[nearest]
        commitment = (features - quantized).square().mean()
        return features + (quantized - features).detach(), commitment


class AutoEncoder(nn.Module):
    def __init__(self, width=6, codes=8):
        super().__init__()
        self.encoder = nn.Linear(12, width)
        self.codebook = Codebook(codes, width)
        self.decoder = nn.Sequential(nn.Linear(width, 24), nn.ReLU(), nn.Linear(24, 12))

    def forward(self, x):
        quantized, commitment = self.codebook(self.encoder(x))
        return self.decoder(quantized), commitment


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--beta", type=float, default=0.25)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(8)
    model = DDP(AutoEncoder())
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=3e-3)
    generator = torch.Generator().manual_seed(40 + rank)
    for step in range(args.steps):
        x = torch.randn(32, 12, generator=generator)
        restored, commitment = model(x)
        loss = (restored - x).square().mean() + args.beta * commitment
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 4 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    print(f"codebook {model.module.codebook.vectors.norm().item():.6f}")
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
