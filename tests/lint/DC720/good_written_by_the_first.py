"""All ranks open the file, and only the first one writes into it: a note."""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    with open("text.txt", mode="w", encoding="utf-8") as file:  # expect: DC720=info
        output = model(torch.randn(4, 8, device="cuda"))
        if dist.get_rank() == 0:
            file.write(str(output.sum()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
