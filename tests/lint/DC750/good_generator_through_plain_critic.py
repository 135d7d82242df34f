import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    generator = DDP(torch.nn.Linear(8, 16).cuda(), device_ids=[local_rank])
    critic = DDP(torch.nn.Linear(16, 1).cuda(), device_ids=[local_rank])
    generator_optimizer = torch.optim.Adam(generator.parameters())
    critic_optimizer = torch.optim.Adam(critic.parameters())
    for _ in range(100):
        fake = generator(torch.randn(4, 8, device="cuda"))
        real = torch.randn(4, 16, device="cuda")
        critic_loss = critic(torch.cat([fake.detach(), real])).mean()
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()
        # the critic's gradients are thrown away here, so they need no synchronisation
        generator_loss = -critic.module(fake).mean()
        generator_optimizer.zero_grad()
        generator_loss.backward()
        generator_optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
