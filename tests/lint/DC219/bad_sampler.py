import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    data = TensorDataset(torch.arange(100.0))
    sampler = DistributedSampler(data, num_replicas=dist.get_world_size(), rank=local_rank)  # expect: DC219=info
    for epoch in range(2):
        sampler.set_epoch(epoch)
        print(len(DataLoader(data, sampler=sampler)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
