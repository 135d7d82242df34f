"""The text of the meter needs all ranks, and only rank 0 prints it."""

import torch
import torch.distributed as dist


class Meter:
    def __init__(self):
        self.total = torch.zeros(1)

    def __str__(self):
        dist.all_reduce(self.total)  # expect: DC701
        return "total"


def main():
    dist.init_process_group("gloo")
    meter = Meter()
    if dist.get_rank() == 0:
        print(f"{meter}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
