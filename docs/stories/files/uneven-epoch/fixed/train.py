"""Fits a plane to measurements; each rank takes its part of them."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    rank = dist.get_rank()

    points = torch.rand(102, 8, generator=torch.Generator().manual_seed(0))
    measurements = TensorDataset(points, points.sum(1, keepdim=True))
    sampler = DistributedSampler(measurements)
    loader = DataLoader(measurements, batch_size=5, sampler=sampler)

    model = DistributedDataParallel(torch.nn.Linear(8, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs.to(device)), targets.to(device))
            loss.backward()
            optimizer.step()
        dist.barrier()
        if rank == 0:
            torch.save(model.module.state_dict(), "plane.pt")
            print(f"epoch {epoch} is done")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
