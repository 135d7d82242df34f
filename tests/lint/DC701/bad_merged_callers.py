"""One caller passes the rank: that call is proven, whatever others pass. Where no call is known, nothing is proven."""

import threading

import torch
import torch.distributed as dist


def report(total: torch.Tensor, me: int) -> None:
    if me == 0:
        dist.all_reduce(total)  # expect: DC701
        print(total)


def handed_on(total: torch.Tensor, me: int) -> None:
    if me == 0:
        dist.all_reduce(total)  # expect: DC701=warning
        print(total)


def finish(total: torch.Tensor, mode: str) -> None:
    if mode == "train" and dist.get_rank() == 0:
        dist.all_reduce(total)  # expect: DC701
        print(total)


def train(total: torch.Tensor) -> None:
    report(total, dist.get_rank())
    handed_on(total, dist.get_rank())
    finish(total, "train")


def evaluate(total: torch.Tensor) -> None:
    report(total, 0)
    handed_on(total, 0)
    finish(total, "eval")
    threading.Timer(1, handed_on).start()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train(torch.ones(1))
    evaluate(torch.ones(1))
    dist.destroy_process_group()
