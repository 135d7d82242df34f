"""DeepSpeed trains the model, and the script walks through a loader of its own."""

import deepspeed
from torch.utils.data import DataLoader, RandomSampler
from torch.utils.data.distributed import DistributedSampler


def main(args, dataset, model):
    deepspeed.init_distributed()
    if args.local_rank == -1:
        sampler = RandomSampler(dataset)
    else:
        sampler = DistributedSampler(dataset)  # expect: DC730=warning
    loader = DataLoader(dataset, sampler=sampler, batch_size=8)
    engine, _, _, _ = deepspeed.initialize(args=args, model=model)
    for _epoch in range(args.epochs):
        for batch in loader:
            loss = engine(batch).mean()
            engine.backward(loss)
            engine.step()
