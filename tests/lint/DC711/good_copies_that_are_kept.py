import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    model = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.randn(8, 4, 3):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        kept = []
        for parameter in model.parameters():
            summed = parameter.grad.clone()
            kept.append(summed)
            dist.all_reduce(summed)
        for parameter, summed in zip(model.parameters(), kept):
            parameter.grad = summed / world
        # the gradients become views of the flat tensor
        flat = torch.cat([parameter.grad.view(-1) for parameter in model.parameters()])
        at = 0
        for parameter in model.parameters():
            parameter.grad = flat[at : at + parameter.numel()].view_as(parameter)
            at += parameter.numel()
        dist.all_reduce(flat)
        flat /= world
        for parameter in model.parameters():
            parameter.total = parameter.grad.clone()
            dist.all_reduce(parameter.total)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
