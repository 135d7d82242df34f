import torch
import torch.distributed as dist


def evaluate(args: object, metrics: torch.Tensor) -> torch.Tensor:
    if not args.parallel_eval:
        if dist.get_rank() != 0:
            return metrics
    if args.verbose:
        dist.all_reduce(metrics)  # expect: DC702=warning
    return metrics
