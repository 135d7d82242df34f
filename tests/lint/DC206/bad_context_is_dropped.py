import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.cuda.device(device)  # expect: DC206
    model = DistributedDataParallel(torch.nn.Linear(4, 4).to(device))
    dist.barrier()
    dist.destroy_process_group()
    return model


if __name__ == "__main__":
    main()
