import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def average_in_a_ring(tensor):
    rank, world = dist.get_rank(), dist.get_world_size()
    part = tensor.clone()
    for _ in range(world - 1):
        sent = dist.isend(part, (rank + 1) % world)
        received = torch.empty_like(part)
        dist.recv(received, (rank - 1) % world)
        sent.wait()
        tensor += received
        part = received
    tensor /= world


def main():
    dist.init_process_group("gloo")
    data = TensorDataset(torch.randn(64, 3))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    model = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for (x,) in loader:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            for parameter in model.parameters():
                average_in_a_ring(parameter.grad)
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
