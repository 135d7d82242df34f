"""All ranks evaluate after each epoch, which is right; the extra round at the end is one rank's alone."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def evaluate(network: torch.nn.Module, batches: list) -> float:
    with torch.no_grad():
        return sum(network(batch).mean().item() for batch in batches)


def main(epochs: int) -> None:
    dist.init_process_group("gloo")
    model = DDP(torch.nn.BatchNorm1d(8))
    batches = [torch.rand(4, 8)]
    for _ in range(epochs):
        evaluate(model, batches)
    model(batches[0]).mean().backward()
    if dist.get_rank() == 0:
        print(evaluate(model, batches))  # expect: DC704
    dist.destroy_process_group()


if __name__ == "__main__":
    main(2)
