import os

import torch
import torch.distributed as dist
from engine import Engine
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    engine = Engine(model, "runs/one")
    for epoch in range(3):
        engine.step(torch.randn(4, 8, device="cuda"))
        if engine.is_master:
            engine.write(epoch)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
