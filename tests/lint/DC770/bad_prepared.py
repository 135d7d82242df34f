"""A loader with a DistributedSampler is prepared, in the function that makes it, or as the result of another."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def main(data):
    accelerator = Accelerator()
    sampler = DistributedSampler(data, num_replicas=accelerator.num_processes, rank=accelerator.process_index)
    loader = DataLoader(data, batch_size=2, sampler=sampler)  # expect: DC770
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for batch in loader:
            accelerator.backward(model(batch).sum())
            optimizer.step()
            optimizer.zero_grad()


def loader_of(data):
    return DataLoader(data, batch_size=2, sampler=DistributedSampler(data, shuffle=False))  # expect: DC770


def evaluate(data):
    accelerator = Accelerator()
    model, loader = accelerator.prepare(torch.nn.Linear(2, 2), loader_of(data))
    with torch.no_grad():
        for batch in loader:
            accelerator.gather(model(batch))


if __name__ == "__main__":
    main(torch.rand(64, 2))
    evaluate(torch.rand(64, 2))
