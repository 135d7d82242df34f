import os

import torch
import torch.distributed as dist
from datasets import load_from_disk
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Rows(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return torch.tensor(self.rows[index]["x"])


def main():
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rows = load_from_disk("rows").shuffle(rank)  # expect: DC733
    data = Rows(rows.select(range(1000)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DDP(torch.nn.Linear(8, 1).cuda())
    for epoch in range(10):
        sampler.set_epoch(epoch)
        for batch in loader:
            model(batch.cuda()).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
