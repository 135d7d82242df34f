import argparse
import os

import torch
import torch.distributed as dist
import torch.utils.data as data
from torch.nn.parallel import DistributedDataParallel


def prepare(dataset, batch_size):
    return data.DataLoader(
        dataset,
        batch_size=batch_size,
        pin_memory=True,
        shuffle=False,
        sampler=data.distributed.DistributedSampler(dataset),  # expect: DC730
    )


class Trainer:
    def __init__(self, model, loader, local_rank):
        self.loader = loader
        self.local_rank = local_rank
        self.model = DistributedDataParallel(model.to(local_rank), device_ids=[local_rank])

    def _run_epoch(self, epoch):
        for (batch,) in self.loader:
            self.model(batch.to(self.local_rank)).sum().backward()

    def train(self, max_epochs):
        for epoch in range(max_epochs):
            self._run_epoch(epoch)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    loader = prepare(data.TensorDataset(torch.randn(1000, 8)), 32)
    Trainer(torch.nn.Linear(8, 1), loader, local_rank).train(args.epochs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
