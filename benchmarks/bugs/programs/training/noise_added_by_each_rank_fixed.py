import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def add_noise(parameters, deviation, generator):
    """Gradient noise, which helps very deep networks."""
    for parameter in parameters:
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.grad.add_(noise, alpha=deviation)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(61)
    ddp = DistributedDataParallel(nn.Sequential(nn.Linear(5, 10), nn.Tanh(), nn.Linear(10, 5)))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    data = torch.Generator().manual_seed(rank)
    noise = torch.Generator().manual_seed(1000)
    for step in range(5):
        inputs = torch.randn(8, 5, generator=data)
        loss = (ddp(inputs) - inputs.flip(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        add_noise(ddp.parameters(), 0.1 / (1 + step), noise)
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
