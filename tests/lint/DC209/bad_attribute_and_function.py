import os

import torch
import torch.distributed as dist


def launcher_rank():
    return os.environ["RANK"]


class Trainer:
    def __init__(self):
        self.rank = launcher_rank()
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))

    def log(self, text):
        if self.rank == 0:  # expect: DC209
            print(text)

    def fit(self):
        dist.init_process_group("nccl")
        self.log("fitting")
        dist.destroy_process_group()
