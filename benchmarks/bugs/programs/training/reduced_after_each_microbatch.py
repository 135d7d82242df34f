import torch
import torch.distributed as dist
from torch import nn

MICRO_BATCHES = 3


def average_gradients(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)


def step(model, optimizer, batch):
    optimizer.zero_grad()
    world_size = dist.get_world_size()
    for inputs, targets in batch:
        loss = nn.functional.mse_loss(model(inputs), targets)
        (loss / (len(batch) * world_size)).backward()
        average_gradients(model)
    norm = torch.cat([parameter.grad.view(-1) for parameter in model.parameters()]).norm()
    optimizer.step()
    return norm.item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(rank)
    norm = 0.0
    for _ in range(4):
        batch = [
            (torch.randn(8, 5, generator=generator), torch.randn(8, 1, generator=generator))
            for _ in range(MICRO_BATCHES)
        ]
        norm = step(model, optimizer, batch)
    if rank == 0:
        print(f"norm of the last gradient {norm:.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
