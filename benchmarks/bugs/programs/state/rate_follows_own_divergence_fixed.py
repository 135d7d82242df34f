import torch
import torch.distributed as dist
from torch import nn


class Policy(nn.Module):
    def __init__(self, observations=6, actions=4):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(observations, 24), nn.Tanh(), nn.Linear(24, actions))

    def forward(self, observations):
        return torch.distributions.Categorical(logits=self.network(observations))


def adapted(rate, divergence, target=0.002):
    if divergence > 2 * target:
        return max(rate / 1.5, 1e-5)
    if divergence < target / 2:
        return min(rate * 1.5, 1e-1)
    return rate


def average(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(9)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    rollouts = torch.Generator().manual_seed(rank)
    rate = 3e-3
    for iteration in range(8):
        observations = torch.randn(32, 6, generator=rollouts) * (1 + 2 * rank)
        with torch.no_grad():
            old = policy(observations)
            actions = old.logits.argmax(1)
        returns = torch.randn(32, generator=rollouts)
        ratio = (policy(observations).log_prob(actions) - old.log_prob(actions)).exp()
        loss = -(ratio * returns).mean()
        optimizer.zero_grad()
        loss.backward()
        average(policy)
        optimizer.step()
        with torch.no_grad():
            divergence = torch.distributions.kl_divergence(old, policy(observations)).mean()
        dist.all_reduce(divergence, op=dist.ReduceOp.MAX)
        rate = adapted(rate, divergence.item())
        optimizer.param_groups[0]["lr"] = rate
        if rank == 0:
            print(f"iteration {iteration} rate {rate:.5f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
