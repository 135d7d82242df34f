import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Policy(nn.Module):
    def __init__(self, observations, actions):
        super().__init__()
        self.register_buffer("shift", torch.zeros(observations))
        self.net = nn.Sequential(nn.Linear(observations, 16), nn.Tanh(), nn.Linear(16, actions))

    @torch.no_grad()
    def update(self, observations):
        mean = observations.mean(0)
        self.shift.lerp_(mean, 0.1)

    def forward(self, observations):
        return self.net(observations - self.shift)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(6)
    policy = Policy(4, 2)
    ddp = DistributedDataParallel(policy, broadcast_buffers=False)
    optimizer = torch.optim.Adam(ddp.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(rank)
    for step in range(6):
        observations = torch.randn(32, 4, generator=generator) + 2 * rank
        policy.update(observations)
        loss = (ddp(observations) - observations[:, :2]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}")
    with torch.no_grad():
        print(f"rank {rank} normalized {(torch.ones(4) - policy.shift).sum().item():.5f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
