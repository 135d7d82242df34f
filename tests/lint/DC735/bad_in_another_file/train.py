import os

import torch
import torch.distributed as dist
from stream import TokenStream
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    data = TokenStream(["a.bin", "b.bin"], 8)
    model = DDP(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    for batch in DataLoader(data, batch_size=8, num_workers=0):
        model(batch.cuda()).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
