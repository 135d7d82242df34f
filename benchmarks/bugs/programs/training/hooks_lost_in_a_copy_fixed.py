import copy

import torch
import torch.distributed as dist
from torch import nn


def average_in_backward(model):
    """Average each gradient as soon as it is complete."""

    def average(parameter):
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(average)
    return model


def student_of(teacher):
    """A copy of the teacher, which goes on learning."""
    return copy.deepcopy(teacher).train()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(51)
    teacher = nn.Sequential(nn.Linear(7, 14), nn.ReLU(), nn.Linear(14, 7))
    student = average_in_backward(student_of(teacher))
    optimizer = torch.optim.SGD(student.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(rank)
    for step in range(5):
        inputs = torch.randn(8, 7, generator=generator)
        with torch.no_grad():
            targets = teacher(inputs)
        loss = (student(inputs + 0.1) - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.5f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
