"""Two callers pass a rank, and one passes a number: the test is no proof that ranks part here."""

import torch
import torch.distributed as dist


def report(total: torch.Tensor, me: int) -> None:
    if me == 0:
        dist.all_reduce(total)  # expect: DC701=warning
        print(total)


def train(total: torch.Tensor) -> None:
    report(total, dist.get_rank())


def evaluate(total: torch.Tensor) -> None:
    report(total, 0)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train(torch.ones(1))
    evaluate(torch.ones(1))
    dist.destroy_process_group()
