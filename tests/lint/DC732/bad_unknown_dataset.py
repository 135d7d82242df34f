import os

import torch
import torch.distributed as dist
from project_data import load_everything
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    # shuffle=True is refused for iterable datasets: this one has indices
    loader = DataLoader(load_everything(), batch_size=32, shuffle=True)  # expect: DC732
    model = DDP(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    for batch in loader:
        model(batch.cuda()).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
