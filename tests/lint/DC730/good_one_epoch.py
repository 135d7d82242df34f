import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    data = TensorDataset(torch.randint(0, 100, (100000, 512)))
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data, drop_last=True))
    model = DDP(torch.nn.Linear(512, 1).cuda(), device_ids=[local_rank])
    # each token is seen once
    for step, (batch,) in enumerate(loader):
        model(batch.cuda().float()).sum().backward()
        if step % 100 == 0 and dist.get_rank() == 0:
            print(step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
