import torch
import torch.distributed as dist
from torch import nn

WARMUP_STEPS = 4


def learning_rate(step):
    return 0.1 * min(1.0, (step + 1) / WARMUP_STEPS)


def average(parameters):
    for parameter in parameters:
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def train_step(model, optimizer, inputs, step):
    loss = nn.functional.mse_loss(model(inputs), inputs.cumsum(1))
    optimizer.zero_grad()
    loss.backward()
    if step < WARMUP_STEPS:
        average(model.parameters())
    if step < WARMUP_STEPS:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
    optimizer.step()
    return loss.item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(31)
    model = nn.Sequential(nn.Linear(5, 15), nn.GELU(), nn.Linear(15, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    for step in range(8):
        loss = train_step(model, optimizer, torch.randn(8, 5, generator=generator), step)
        if rank == 0:
            print(f"step {step} loss {loss:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
