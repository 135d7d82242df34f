import argparse

import torch
import torch.distributed as dist
import torch.nn as nn


class Gossip:
    """Averages the weights with a random partner instead of all ranks."""

    def __init__(self, seed):
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.generator = torch.Generator().manual_seed(seed)

    def partner(self):
        order = torch.randperm(self.world_size, generator=self.generator).tolist()
        position = order.index(self.rank)
        return order[position ^ 1]

    def exchange(self, flat):
        partner = self.partner()
        received = torch.empty_like(flat)
        requests = [dist.isend(flat, partner), dist.irecv(received, partner)]
        for request in requests:
            request.wait()
        return (flat + received) / 2

    @torch.no_grad()
    def average(self, model):
        parameters = list(model.parameters())
        flat = self.exchange(torch.cat([parameter.flatten() for parameter in parameters]))
        for parameter, mixed in zip(parameters, flat.split([each.numel() for each in parameters])):
            parameter.copy_(mixed.view_as(parameter))


def build_data(rank, size):
    generator = torch.Generator().manual_seed(1000 + rank)
    x = torch.randn(size, 5, generator=generator)
    return x, x.mean(dim=1, keepdim=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    gossip = Gossip(args.seed + rank)
    x, y = build_data(rank, args.steps * args.batch_size)
    for step in range(args.steps):
        batch = slice(step * args.batch_size, (step + 1) * args.batch_size)
        loss = nn.functional.mse_loss(model(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        gossip.average(model)
        if rank == 0 and step % 4 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    for parameter in model.parameters():
        dist.all_reduce(parameter.data, op=dist.ReduceOp.AVG)
    print(f"rank {rank}: done")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
