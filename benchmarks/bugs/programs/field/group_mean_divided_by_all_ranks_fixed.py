import argparse

import torch
import torch.distributed as dist
import torch.nn as nn

DOMAINS = ("news", "code")


class MultiDomainModel(nn.Module):
    """A common body, and a head for the domain whose data this rank reads."""

    def __init__(self, width):
        super().__init__()
        self.body = nn.Linear(4, width)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


def reduce_mean(tensor, group=None):
    dist.all_reduce(tensor, group=group)
    tensor.div_(dist.get_world_size(group))
    return tensor


class Trainer:
    def __init__(self, model, domain_group, lr):
        self.model, self.domain_group = model, domain_group
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        self.share_start_weights()

    def share_start_weights(self):
        with torch.no_grad():
            for parameter in self.model.body.parameters():
                dist.broadcast(parameter, src=0)
            first = dist.get_global_rank(self.domain_group, 0)
            for parameter in self.model.head.parameters():
                dist.broadcast(parameter, src=first, group=self.domain_group)

    def average_gradients(self):
        for parameter in self.model.body.parameters():
            reduce_mean(parameter.grad)
        for parameter in self.model.head.parameters():
            reduce_mean(parameter.grad, self.domain_group)

    def step(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.average_gradients()
        self.optimizer.step()
        return loss.detach()


def build_domain_groups(world_size):
    groups = []
    for index in range(len(DOMAINS)):
        groups.append(dist.new_group(list(range(index, world_size, len(DOMAINS)))))
    return groups


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.2)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    domain = rank % len(DOMAINS)
    group = build_domain_groups(world_size)[domain]
    torch.manual_seed(1)
    trainer = Trainer(MultiDomainModel(width=6), group, args.lr)
    data = torch.Generator().manual_seed(100 + rank)
    for step in range(args.steps):
        x = torch.randn(8, 4, generator=data)
        loss = trainer.step(x, x.sum(dim=1, keepdim=True) * (1 + domain))
    loss = reduce_mean(loss)
    if rank == 0:
        norm = trainer.model.head.weight.detach().norm()
        print(f"loss {loss.item():.4f}, head of {DOMAINS[domain]}: norm {norm.item():.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
