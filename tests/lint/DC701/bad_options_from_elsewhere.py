"""Where the options come from can't be seen; what local_rank means beside torch.distributed can."""

import torch
import torch.distributed as dist


def train(args, batches: list) -> None:
    total = torch.zeros(1)
    for batch in batches:
        total += batch.sum()
        if args.local_rank in [-1, 0] and args.logging:
            dist.all_reduce(total)  # expect: DC701=warning
            print(total)


class Runner:
    def __init__(self, options) -> None:
        self.options = options

    def stop(self) -> None:
        if self.options.rank == 0:
            print("stopping")
            torch.distributed.barrier()  # expect: DC701=warning
