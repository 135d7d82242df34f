import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train(options):
    model = DDP(torch.nn.Linear(4, 4).cuda())
    model(torch.ones(1, 4, device="cuda")).sum().backward()
    torch.save(model.module.state_dict(), os.path.join(options["out"], "last.pt"))  # expect: DC720


def launch(options, main_fn):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    try:
        main_fn(options)
    finally:
        dist.destroy_process_group()


def main():
    launch({"out": "out"}, main_fn=train)


if __name__ == "__main__":
    main()
