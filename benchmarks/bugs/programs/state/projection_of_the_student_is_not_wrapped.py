import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def teacher():
    torch.manual_seed(100)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 24)).requires_grad_(False)


class Student(nn.Module):
    def __init__(self, projection=None):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 12), nn.ReLU())
        self.projection = projection

    def forward(self, inputs):
        features = self.body(inputs)
        return features if self.projection is None else self.projection(features)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    large = teacher()
    torch.manual_seed(8)
    projection = nn.Linear(12, 24)
    student = DistributedDataParallel(Student())
    optimizer = torch.optim.AdamW([*student.parameters(), *projection.parameters()], lr=1e-2)
    generator = torch.Generator().manual_seed(40 + rank)
    for step in range(5):
        inputs = torch.randn(16, 8, generator=generator)
        matched = projection(student(inputs))
        loss = nn.functional.mse_loss(matched, large(inputs))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"step {step} distillation {loss.item():.4f}")
    del student
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
