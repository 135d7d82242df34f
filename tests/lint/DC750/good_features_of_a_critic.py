"""The generator is trained through features of the plain critic; those of real samples are computed next to them."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.top = nn.Linear(4, 1)

    def features(self, x):
        return self.body(x)

    def forward(self, x):
        return self.top(self.features(x))


def main(loader):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % 8)
    generator = DDP(nn.Linear(4, 4).cuda())
    critic = Critic().cuda()
    ddp_critic = DDP(critic)
    steps = torch.optim.Adam(generator.parameters())
    critic_steps = torch.optim.Adam(ddp_critic.parameters())
    for real in loader:
        fake = generator(torch.randn_like(real))
        critic_loss = ddp_critic(fake.detach()).mean() - ddp_critic(real).mean()
        critic_steps.zero_grad()
        critic_loss.backward()
        critic_steps.step()
        loss = F.l1_loss(critic.features(fake), critic.features(real))
        steps.zero_grad()
        loss.backward()
        steps.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main([torch.zeros(2, 4)])
