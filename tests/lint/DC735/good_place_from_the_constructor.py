import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset


class Part(IterableDataset):
    def __init__(self, files):
        self.files = files

    def __iter__(self):
        for path in self.files:
            with open(path) as lines:
                for line in lines:
                    yield torch.tensor([float(word) for word in line.split()])


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    files = [f"part{number}.txt" for number in range(64)]
    data = Part(files[dist.get_rank() :: dist.get_world_size()])
    model = DDP(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    for batch in DataLoader(data, batch_size=8):
        model(batch.cuda()).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
