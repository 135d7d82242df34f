import os

import torch
import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler


def main():
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    for epoch in range(3):
        sampler = DistributedSampler(
            range(1000),
            num_replicas=torch.cuda.device_count(),
            rank=rank,  # expect: DC219=warning
        )
        sampler.set_epoch(epoch)
        print(list(sampler))


if __name__ == "__main__":
    main()
