import random

import torch
import torch.distributed as dist
from torch import nn


def build_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))


def freeze_some(model, chooser):
    """Layer dropout for fine-tuning: one of the first two linear layers rests in this step."""
    resting = chooser.choice([0, 2])
    for index in (0, 2):
        for parameter in model[index].parameters():
            parameter.requires_grad_(index != resting)


def average_gradients(model, world_size):
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    flat = torch.cat([gradient.view(-1) for gradient in gradients])
    dist.all_reduce(flat)
    flat /= world_size
    offset = 0
    for parameter in model.parameters():
        piece = flat[offset : offset + parameter.numel()].view_as(parameter)
        offset += parameter.numel()
        if parameter.requires_grad:
            parameter.grad = piece.clone()


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    model = build_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = torch.Generator().manual_seed(100 + rank)
    chooser = random.Random(7)
    for step in range(6):
        freeze_some(model, chooser)
        inputs = torch.randn(16, 8, generator=data)
        loss = nn.functional.cross_entropy(model(inputs), inputs[:, :4].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model, world_size)
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
