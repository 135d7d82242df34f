"""One flag decides who leaves and whether the function that is called communicates."""

import torch
import torch.distributed as dist


class Meter:
    def __init__(self, shared: bool) -> None:
        self.shared = shared
        self.value = torch.zeros(1)

    def flush(self) -> None:
        if self.shared:
            dist.all_reduce(self.value)
        print(self.value)

    def write(self) -> None:
        if not self.shared and dist.get_rank() != 0:
            return
        self.flush()


def gather(metrics: torch.Tensor, together: bool) -> torch.Tensor:
    if together:
        dist.all_reduce(metrics)
    return metrics


def deeper(metrics: torch.Tensor, many: bool) -> torch.Tensor:
    return gather(metrics, together=many)


def evaluate(args: object, metrics: torch.Tensor) -> torch.Tensor:
    if not args.parallel_eval:
        if dist.get_rank() != 0:
            return metrics
    return deeper(metrics, args.parallel_eval)
