"""A function assigns the attribute by its name."""

import torch.distributed as dist


class Average:
    def update(self):
        print("updated")


class Trainer:
    def __init__(self, parts):
        if dist.get_rank() == 0:
            self.ema = Average()
        for name, part in parts.items():
            setattr(self, name, part)

    def step(self):
        self.ema.update()


def main():
    dist.init_process_group("nccl")
    Trainer({"ema": Average()}).step()
    dist.destroy_process_group()
