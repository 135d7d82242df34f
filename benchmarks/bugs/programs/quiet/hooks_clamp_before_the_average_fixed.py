import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class CharRNN(nn.Module):
    def __init__(self, tokens, hidden):
        super().__init__()
        self.embedding = nn.Embedding(tokens, hidden)
        self.cell = nn.GRUCell(hidden, hidden)
        self.out = nn.Linear(hidden, tokens)

    def forward(self, text):
        state = torch.zeros(text.shape[0], self.cell.hidden_size)
        outputs = []
        for step in range(text.shape[1]):
            state = self.cell(self.embedding(text[:, step]), state)
            outputs.append(self.out(state))
        return torch.stack(outputs, dim=1)


def limit_gradients(model, limit):
    """Recurrent gradients explode now and then: keep each entry within the limit."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.clamp_(-limit, limit)


def batches(rank, world, steps, size=4, length=9):
    """Texts that get repeat few tokens on the last rank have larger gradients."""
    generator = torch.Generator().manual_seed(20 + rank)
    for _ in range(steps):
        text = torch.randint(0, 12, (size, length), generator=generator)
        if rank == world - 1:
            text = text // 6
        yield text[:, :-1], text[:, 1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--limit", type=float, default=0.02)
    parser.add_argument("--lr", type=float, default=0.5)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    network = CharRNN(12, 16)
    model = DDP(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss()
    for step, (text, following) in enumerate(batches(rank, world, args.steps)):
        optimizer.zero_grad()
        loss = criterion(model(text).flatten(0, 1), following.flatten())
        loss.backward()
        limit_gradients(network, args.limit)
        optimizer.step()
        if rank == 0 and step % 4 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    norm = torch.sqrt(sum(p.detach().square().sum() for p in network.parameters()))
    print(f"norm of the weights {norm.item():.6f}")
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
