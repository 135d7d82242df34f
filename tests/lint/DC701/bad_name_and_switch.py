"""What the switch depends on can't be seen, and two steps are not proven where the rank is a name, too."""

import torch
import torch.distributed as dist


def report(total: torch.Tensor, verbose: bool) -> None:
    if verbose:
        if dist.get_rank() == 0:
            dist.all_reduce(total)  # expect: DC701=warning


class Report:
    def __init__(self, worker: object) -> None:
        self.worker = worker

    def show(self, total: torch.Tensor) -> None:
        if self.worker.is_main_process:
            dist.all_reduce(total)  # expect: DC701=warning
