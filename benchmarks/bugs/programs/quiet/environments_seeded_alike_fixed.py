import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributions import Categorical
from torch.nn.parallel import DistributedDataParallel as DDP


class Cart:
    """Several copies of a cart on a track, each with its own start."""

    def __init__(self, copies, seed):
        self.generator = torch.Generator().manual_seed(seed)
        self.copies = copies

    def reset(self):
        self.state = torch.randn(self.copies, 4, generator=self.generator) * 0.5
        return self.state.clone()

    def step(self, actions):
        position, speed = self.state[:, :2], self.state[:, 2:]
        speed = speed + 0.1 * (actions.float() * 2 - 1).unsqueeze(1)
        self.state = torch.cat([position + 0.1 * speed, speed], dim=1)
        return self.state.clone(), -position.norm(dim=1)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
        self.action, self.value = nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, states):
        features = self.body(states)
        return self.action(features), self.value(features).squeeze(-1)


@torch.no_grad()
def collect(policy, environment, length):
    states, actions, rewards = [], [], []
    state = environment.reset()
    for _ in range(length):
        action = Categorical(logits=policy(state)[0]).sample()
        following, reward = environment.step(action)
        states.append(state), actions.append(action), rewards.append(reward)
        state = following
    returns = torch.stack(rewards).flip(0).cumsum(0).flip(0)
    return torch.cat(states), torch.cat(actions), returns.flatten()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=8)
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed + rank)
    environment = Cart(4, args.seed + rank)
    model = DDP(Policy())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for update in range(args.updates):
        states, actions, returns = collect(model.module, environment, 6)
        logits, values = model(states)
        advantage = (returns - values).detach()
        loss = -(Categorical(logits=logits).log_prob(actions) * advantage).mean()
        loss = loss + 0.5 * (returns - values).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        reward = returns.mean()
        dist.all_reduce(reward)
        if rank == 0 and update % 4 == 0:
            print(f"update {update}: return {reward.item() / dist.get_world_size():.3f}")
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
