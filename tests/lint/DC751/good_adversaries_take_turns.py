import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def set_requires_grad(network: torch.nn.Module, wanted: bool) -> None:
    for parameter in network.parameters():
        parameter.requires_grad = wanted


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    generator = DDP(torch.nn.Linear(8, 16).cuda(), device_ids=[local_rank])
    critic = DDP(torch.nn.Linear(16, 1).cuda(), device_ids=[local_rank], broadcast_buffers=False)
    generator_optimizer = torch.optim.Adam(generator.parameters())
    critic_optimizer = torch.optim.Adam(critic.parameters())
    for _ in range(100):
        set_requires_grad(critic, True)
        fake = generator(torch.randn(4, 8, device="cuda"))
        critic_optimizer.zero_grad()
        critic(fake.detach()).mean().backward()
        critic_optimizer.step()
        set_requires_grad(critic, False)
        generator_optimizer.zero_grad()
        critic(fake).mean().neg().backward()
        generator_optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
