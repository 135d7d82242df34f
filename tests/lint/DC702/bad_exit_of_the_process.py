import os
import sys

import torch
import torch.distributed as dist


def evaluate(score: torch.Tensor) -> float:
    rank = dist.get_rank()
    if rank > 0:
        sys.exit(0)
    dist.all_reduce(score)  # expect: DC702
    return score.item()


def compare(score: torch.Tensor) -> float:
    if dist.get_rank() != 0:
        os._exit(0)
    dist.reduce(score, dst=0)  # expect: DC702
    return score.item()


def inspect(score: torch.Tensor) -> float:
    if dist.get_rank() != 0:
        raise SystemExit
    dist.barrier()  # expect: DC702
    return score.item()


def main(which: str) -> None:
    dist.init_process_group("gloo")
    choices = {"evaluate": evaluate, "compare": compare, "inspect": inspect}
    print(choices[which](torch.ones(1)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main("evaluate")
