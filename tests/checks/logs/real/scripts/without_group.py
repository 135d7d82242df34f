"""It wraps a model before there is a group."""

import torch
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Run it."""
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    print(model)


if __name__ == "__main__":
    main()
