import torch
import torch.distributed as dist
from torch import nn


class LossScaler:
    def __init__(self, scale=2.0**16):
        self.scale = scale

    def step(self, optimizer, finite):
        if finite:
            optimizer.step()
        else:
            self.scale /= 2


def clip_and_average(model, scale):
    finite = True
    for parameter in model.parameters():
        gradient = parameter.grad.div_(scale)
        gradient.nan_to_num_(0.0, 1.0, -1.0)
        dist.all_reduce(gradient)
        gradient /= dist.get_world_size()
    flag = torch.tensor(float(finite))
    dist.all_reduce(flag, op=dist.ReduceOp.MIN)
    return flag.item() > 0


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(8)
    model = nn.Sequential(nn.Linear(3, 9), nn.ReLU(), nn.Linear(9, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = LossScaler()
    generator = torch.Generator().manual_seed(30 + rank)
    for step in range(5):
        inputs = torch.randn(8, 3, generator=generator)
        if rank == 1 and step == 1:
            inputs[0] = float("inf")
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        (loss * scaler.scale).backward()
        scaler.step(optimizer, clip_and_average(model, scaler.scale))
        print(f"rank {rank} step {step} scale {scaler.scale:.0f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
