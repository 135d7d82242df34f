import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class FirstStage(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.block = nn.Sequential(nn.Linear(width, width), nn.GELU())

    def forward(self, tokens):
        return self.block(self.embed(tokens))

    def tied(self):
        return self.embed.weight


class LastStage(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width))
        self.project = nn.Linear(width, vocabulary, bias=False)

    def forward(self, hidden):
        return self.project(self.block(hidden))

    def tied(self):
        return self.project.weight


class Pipeline:
    """Two stages, which pass activations and gradients to each other; all forwards of a step run first."""

    def __init__(self, stage, rank, width):
        self.stage, self.rank, self.width = stage, rank, width

    def forward_backward(self, tokens):
        if self.rank == 0:
            outputs = [self.stage(part[:, :-1]) for part in tokens]
            for output in outputs:
                dist.send(output.detach(), dst=1)
            for output in outputs:
                gradient = torch.empty_like(output)
                dist.recv(gradient, src=1)
                output.backward(gradient)
            return torch.zeros(())
        total, inputs = torch.zeros(()), []
        for part in tokens:
            hidden = torch.empty(part.size(0), part.size(1) - 1, self.width)
            dist.recv(hidden, src=0)
            inputs.append(hidden.requires_grad_())
        for hidden, part in zip(inputs, tokens):
            loss = F.cross_entropy(self.stage(hidden).flatten(0, 1), part[:, 1:].flatten()) / len(tokens)
            loss.backward()
            dist.send(hidden.grad, dst=0)
            total += loss.detach()
        return total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--micro-batches", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, vocabulary, width = dist.get_rank(), 24, 16
    torch.manual_seed(rank)
    stage = FirstStage(vocabulary, width) if rank == 0 else LastStage(vocabulary, width)
    dist.broadcast(stage.tied().data, src=0)
    pipeline = Pipeline(stage, rank, width)
    optimizer = torch.optim.SGD(stage.parameters(), lr=args.lr, momentum=0.9)
    generator = torch.Generator().manual_seed(7)
    for _ in range(args.steps):
        tokens = torch.randint(0, vocabulary, (args.micro_batches, 2, 9), generator=generator)
        optimizer.zero_grad()
        pipeline.forward_backward(tokens.unbind())
        dist.all_reduce(stage.tied().grad)
        optimizer.step()
    copies = [torch.empty(vocabulary, width) for _ in range(2)]
    dist.all_gather(copies, stage.tied().detach())
    print(f"copies differ by {(copies[0] - copies[1]).abs().max().item():.5f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
