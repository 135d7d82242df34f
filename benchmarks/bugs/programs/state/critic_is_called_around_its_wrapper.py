import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Adversarial(nn.Module):
    def __init__(self, noise=4, width=16):
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(noise, width), nn.ReLU(), nn.Linear(width, 2))
        self.critic = nn.Sequential(nn.Linear(2, width), nn.LeakyReLU(0.2), nn.Linear(width, 1))

    def forward(self, inputs, part):
        if part == "generator":
            return self.critic(self.generator(inputs))
        return self.critic(inputs)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(7)
    ddp = DistributedDataParallel(Adversarial(), find_unused_parameters=True)
    generator, critic = ddp.module.generator, ddp.module.critic
    of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3)
    of_critic = torch.optim.Adam(critic.parameters(), lr=1e-3)
    noise = torch.Generator().manual_seed(rank)
    for step in range(5):
        real = torch.randn(16, 2, generator=noise) + 2
        with torch.no_grad():
            fake = generator(torch.randn(16, 4, generator=noise))
        both = torch.cat([real, fake])
        scores = critic(both)
        loss = scores[16:].mean() - scores[:16].mean()
        ddp.zero_grad()
        loss.backward()
        of_critic.step()

        loss = -ddp(torch.randn(16, 4, generator=noise), "generator").mean()
        ddp.zero_grad()
        loss.backward()
        of_generator.step()
        # the step of the critic once more, so that it is the last one
        of_critic.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
