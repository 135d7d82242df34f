import os
import time
from datetime import datetime

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    began = time.time()
    if dist.get_rank() == 0:
        os.makedirs(f"logs/{int(time.time())}", exist_ok=True)
        torch.save(model.state_dict(), "model.pt")
    os.makedirs(time.strftime("cache/%Y-%m-%d"), exist_ok=True)
    os.makedirs(f"cache/{datetime.now():%Y-%m-%d}", exist_ok=True)
    print(dist.get_rank(), time.time() - began)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
