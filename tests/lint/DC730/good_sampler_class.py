import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Buckets(DistributedSampler):
    def __init__(self, dataset, lengths, batch_size, shuffle=True):
        super().__init__(dataset, shuffle=shuffle)
        self.order = sorted(range(len(lengths)), key=lengths.__getitem__)
        self.batch_size = batch_size

    def __iter__(self):
        generator = torch.Generator()
        generator.manual_seed(self.epoch)
        batches = [self.order[at : at + self.batch_size] for at in range(0, len(self.order), self.batch_size)]
        if self.shuffle:
            batches = [batches[at] for at in torch.randperm(len(batches), generator=generator).tolist()]
        return iter(batches[self.rank :: self.num_replicas])


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    data = TensorDataset(torch.randn(1000, 8))
    sampler = Buckets(data, [len(row) for (row,) in data], 8)
    loader = DataLoader(data, batch_sampler=sampler)
    model = DDP(torch.nn.Linear(8, 1).cuda())
    for epoch in range(10):
        loader.batch_sampler.set_epoch(epoch)
        for (batch,) in loader:
            model(batch.cuda()).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
