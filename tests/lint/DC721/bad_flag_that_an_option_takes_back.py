import argparse
import os

import torch
import torch.distributed as dist
import wandb
from torch.nn.parallel import DistributedDataParallel as DDP


class Base:
    def __init__(self, args, rank):
        self.args = args
        self.verbose = True
        if args.distributed:
            if args.quiet:
                self.verbose = False


class Trainer(Base):
    def fit(self, model):
        if self.verbose:
            wandb.init(project="digits")  # expect: DC721=warning
        for step in range(100):
            loss = model(torch.randn(4, 8, device="cuda")).sum()
            loss.backward()
            if self.verbose:
                wandb.log({"loss": loss.item()})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--distributed", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    Trainer(args, dist.get_rank()).fit(model)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
