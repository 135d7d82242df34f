"""The method that reads the attribute is called on all ranks."""

import torch
import torch.distributed as dist


class Loggers:
    def log(self, value):
        print(value)


class Trainer:
    def __init__(self, kind):
        self.kind = kind
        self.rank = dist.get_rank()

    def before(self):
        if self.rank == 0:
            if self.kind == "file":
                self.loggers = Loggers()

    def after(self, value):
        if self.kind == "file":
            self.loggers.log(value)  # expect: DC708

    def train(self):
        self.before()
        for step in range(10):
            self.after(step)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    Trainer("file").train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
