import os

import torch
import torch.distributed as dist
from loaders import make_loader
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(784, 10).cuda(), device_ids=[local_rank])
    loader = make_loader("data", False)
    if dist.get_rank() == 0:
        print(len(make_loader("data", False)))
    for images, labels in loader:
        torch.nn.functional.cross_entropy(model(images.flatten(1).cuda()), labels.cuda()).backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
