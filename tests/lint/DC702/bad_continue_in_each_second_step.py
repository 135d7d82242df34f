import os

import torch
import torch.distributed as dist


def train(items: list[torch.Tensor]) -> None:
    rank = int(os.environ["RANK"])
    for step, item in enumerate(items):
        if step % 2 != rank:
            continue
        dist.all_reduce(item)  # expect: DC702


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train([torch.rand(1)] * 8)
    dist.destroy_process_group()
