import argparse
import math

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh


class AllGatherSequence(torch.autograd.Function):
    """Concatenates the parts of a sequence forward; sums the gradients of each part backward."""

    @staticmethod
    def forward(ctx, part, group):
        ctx.group = group
        parts = [torch.empty_like(part) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, part.contiguous(), group=group)
        return torch.cat(parts, dim=1)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient.chunk(dist.get_world_size(ctx.group), dim=1)[dist.get_rank(ctx.group)], None


class Attention(nn.Module):
    def __init__(self, width, group):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.group = group

    def forward(self, x):
        keys, values = AllGatherSequence.apply(self.key_value(x), self.group).chunk(2, dim=-1)
        scores = self.query(x) @ keys.transpose(1, 2) / math.sqrt(x.size(-1))
        return x + scores.softmax(dim=-1) @ values


class Model(nn.Module):
    def __init__(self, vocabulary, width, group):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.attention = Attention(width, group)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.attention(self.embed(tokens)))


def average_gradients(model, group):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG, group=group)


def batches(count, rank):
    generator = torch.Generator().manual_seed(100 + rank)
    for _ in range(count):
        yield torch.randint(0, 32, (2, 17), generator=generator)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--context-parallel", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    replicas = dist.get_world_size() // args.context_parallel
    mesh = init_device_mesh("cpu", (replicas, args.context_parallel), mesh_dim_names=("data", "context"))
    context = mesh.get_group("context")
    torch.manual_seed(1)
    model = Model(32, 16, context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for tokens in batches(args.steps, mesh.get_local_rank("data")):
        part = tokens[:, :-1].chunk(args.context_parallel, dim=1)[mesh.get_local_rank("context")]
        labels = tokens[:, 1:].chunk(args.context_parallel, dim=1)[mesh.get_local_rank("context")]
        loss = F.cross_entropy(model(part).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model, mesh.get_group("data"))
        optimizer.step()
        dist.all_reduce(loss.detach(), op=dist.ReduceOp.AVG)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
