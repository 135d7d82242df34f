import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.parallel import DistributedDataParallel


def networks():
    torch.manual_seed(11)
    generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    discriminator = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    return generator, discriminator


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    generator, discriminator = networks()
    generator = DistributedDataParallel(generator)
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    noise = torch.Generator().manual_seed(1000 + rank)
    for step in range(4):
        real = torch.randn(16, 2, generator=noise) * 0.5 + 1.0
        fake = generator(torch.randn(16, 4, generator=noise))

        optimizer_d.zero_grad()
        scores = discriminator(torch.cat([real, fake.detach()]))
        labels = torch.cat([torch.ones(16, 1), torch.zeros(16, 1)])
        loss_d = binary_cross_entropy_with_logits(scores, labels)
        loss_d.backward()
        optimizer_d.step()

        optimizer_g.zero_grad()
        loss_g = binary_cross_entropy_with_logits(discriminator(fake), torch.ones(16, 1))
        loss_g.backward()
        optimizer_g.step()
        if rank == 0:
            print(f"step {step}: d {loss_d.item():.4f} g {loss_g.item():.4f}")
    total = sum(parameter.detach().square().sum() for parameter in discriminator.parameters())
    print(f"rank {rank} discriminator {total.item():.6f}")
    del generator, discriminator
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
