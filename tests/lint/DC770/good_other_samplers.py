"""Samplers that divide nothing are prepared: of weights, by default, or one for a single replica."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, DistributedSampler, WeightedRandomSampler


def main(data):
    accelerator = Accelerator()
    weighted = DataLoader(data, batch_size=2, sampler=WeightedRandomSampler(torch.ones(64), 64))
    plain = DataLoader(data, batch_size=2, shuffle=True)
    whole = DataLoader(data, batch_size=2, sampler=DistributedSampler(data, num_replicas=1, rank=0, shuffle=False))
    model, weighted, plain, whole = accelerator.prepare(torch.nn.Linear(2, 2), weighted, plain, whole)
    with torch.no_grad():
        for loader in (weighted, plain, whole):
            for batch in loader:
                accelerator.gather(model(batch))


if __name__ == "__main__":
    main(torch.rand(64, 2))
