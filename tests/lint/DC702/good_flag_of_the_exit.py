import torch
import torch.distributed as dist


class Meter:
    def __init__(self, shared: bool) -> None:
        self.shared = shared
        self.value = torch.zeros(1)

    def write(self) -> None:
        if not self.shared and dist.get_rank() != 0:
            return
        if self.shared:
            dist.all_reduce(self.value)
        print(self.value)


def evaluate(args: object, metrics: torch.Tensor) -> torch.Tensor:
    if not args.parallel_eval:
        if dist.get_rank() != 0:
            return metrics
    if args.parallel_eval:
        dist.all_reduce(metrics)
    return metrics
