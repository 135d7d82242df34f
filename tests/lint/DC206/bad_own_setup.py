"""The setup of the group is the script's own: it binds nothing. What another library initializes is no group."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from trainer_library import init_distillation, setup_logging


class Engine:
    def init_process_group(self):
        dist.init_process_group(backend="nccl")  # expect: DC206


def main():
    setup_logging()
    Engine().init_process_group()
    model = DistributedDataParallel(init_distillation(torch.nn.Linear(4, 4)).to("cuda"))
    model(torch.ones(1, 4, device="cuda")).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
