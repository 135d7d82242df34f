import torch
import torch.distributed as dist
from torch import nn


class Tagger(nn.Module):
    def __init__(self, words, tags, width=12):
        super().__init__()
        self.embedding = nn.Embedding(words, width, sparse=True)
        self.output = nn.Linear(width, tags)

    def forward(self, tokens):
        return self.output(self.embedding(tokens).mean(1))


def average_gradients(model):
    world_size = float(dist.get_world_size())
    for parameter in model.parameters():
        if parameter.grad is None:
            continue
        if parameter.grad.is_sparse:
            continue
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
        parameter.grad /= world_size


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    model = Tagger(60, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    generator = torch.Generator().manual_seed(70 + rank)
    for step in range(6):
        tokens = torch.randint(60, (16, 9), generator=generator)
        loss = nn.functional.cross_entropy(model(tokens), tokens.sum(1) % 5)
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model)
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
