"""The sampler is there where several processes run, so it divides the data that Accelerate divides."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, DistributedSampler


def main(data):
    accelerator = Accelerator()
    model = accelerator.prepare(torch.nn.Linear(2, 2))
    if accelerator.num_processes > 1:
        loader = DataLoader(data, batch_size=2, sampler=DistributedSampler(data))  # expect: DC770
        loader = accelerator.prepare(loader)
        for batch in loader:
            accelerator.backward(model(batch).sum())


if __name__ == "__main__":
    main(torch.rand(64, 2))
