import os

import torch
import torch.distributed as dist
from datasets import load_dataset
from datasets.distributed import split_dataset_by_node
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset


class Packed(IterableDataset):
    """Joins what another dataset yields; that one is divided already."""

    def __init__(self, source, length):
        self.source = source
        self.length = length

    def __iter__(self):
        held = []
        for item in self.source:
            held.extend(item["values"])
            while len(held) >= self.length:
                yield torch.tensor(held[: self.length])
                held = held[self.length :]


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    stream = load_dataset("numbers", split="train", streaming=True)
    stream = split_dataset_by_node(stream, rank=dist.get_rank(), world_size=dist.get_world_size())
    model = DDP(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    for batch in DataLoader(Packed(stream, 8), batch_size=8):
        model(batch.cuda()).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
