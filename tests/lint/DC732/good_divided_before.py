import os

import torch
import torch.distributed as dist
from datasets import load_dataset
from datasets.distributed import split_dataset_by_node
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Subset, TensorDataset


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    model = DDP(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    data = split_dataset_by_node(load_dataset("numbers", split="train"), rank=rank, world_size=world_size)
    for batch in DataLoader(data, batch_size=32, shuffle=True):
        model(batch["x"].cuda()).sum().backward()
    everything = TensorDataset(torch.randn(1024, 8))
    part = Subset(everything, range(rank, 1024 - 1024 % world_size, world_size))
    for (batch,) in DataLoader(part, batch_size=32, shuffle=True):
        model(batch.cuda()).sum().backward()
    shard = load_dataset("numbers", split="train").shard(num_shards=world_size, index=rank)
    for batch in DataLoader(shard, batch_size=32, shuffle=True):
        model(batch["x"].cuda()).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
