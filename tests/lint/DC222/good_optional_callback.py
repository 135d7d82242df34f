from collections.abc import Callable

import torch.distributed as dist


def is_main_process() -> bool:
    return dist.get_rank() == 0


def train(steps: int, chosen: Callable[[], bool] | None = None) -> None:
    for step in range(steps):
        if chosen and chosen():
            print(step)


def main() -> None:
    train(3, is_main_process)
    train(3)
