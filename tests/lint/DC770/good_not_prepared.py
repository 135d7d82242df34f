"""The loader with the sampler is not prepared."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, DistributedSampler


def main(data):
    accelerator = Accelerator()
    sampler = DistributedSampler(data, num_replicas=accelerator.num_processes, rank=accelerator.process_index)
    loader = DataLoader(data, batch_size=2, sampler=sampler)
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for batch in loader:
            accelerator.backward(model(batch.to(accelerator.device)).sum())
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main(torch.rand(64, 2))
