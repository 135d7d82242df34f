"""The sampler is there only where an option asks for it: a loader for Accelerate has none."""

import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, DistributedSampler


def loader_of(data, distributed=False):
    sampler = DistributedSampler(data) if distributed else None
    return DataLoader(data, batch_size=2, sampler=sampler)


def divided(data, distributed):
    if distributed:
        return DataLoader(data, batch_size=2, sampler=DistributedSampler(data))
    return DataLoader(data, batch_size=2, shuffle=True)


def main(data):
    parser = argparse.ArgumentParser()
    parser.add_argument("--distributed", action="store_true")
    options = parser.parse_args()
    accelerator = Accelerator()
    first, second, third = accelerator.prepare(
        loader_of(data, False), loader_of(data, options.distributed), divided(data, options.distributed)
    )
    model = accelerator.prepare(torch.nn.Linear(2, 2))
    with torch.no_grad():
        for loader in (first, second, third):
            for batch in loader:
                accelerator.gather(model(batch))


if __name__ == "__main__":
    main(torch.rand(64, 2))
