import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    names = [time.strftime("runs/%Y%m%d-%H%M%S")]
    dist.broadcast_object_list(names, src=0)
    os.makedirs(names[0], exist_ok=True)
    model = DDP(torch.nn.Linear(4, 4).cuda())
    torch.save(model.state_dict(), f"{names[0]}/{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
