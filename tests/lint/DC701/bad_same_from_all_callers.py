"""All callers pass the rank: where the value comes from does not matter, and the finding is proven."""

import os

import torch
import torch.distributed as dist


def report(total: torch.Tensor, me: int) -> None:
    if me == 0:
        dist.all_reduce(total)  # expect: DC701
        print(total)


def train(total: torch.Tensor) -> None:
    report(total, dist.get_rank())


def evaluate(total: torch.Tensor) -> None:
    report(total, int(os.environ.get("RANK", 0)))


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train(torch.ones(1))
    evaluate(torch.ones(1))
    dist.destroy_process_group()
