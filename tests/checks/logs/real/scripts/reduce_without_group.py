"""It reduces before there is a group."""

import torch
import torch.distributed as dist


def main() -> None:
    """Run it."""
    loss = torch.ones(1)
    dist.all_reduce(loss)
    print(loss)


if __name__ == "__main__":
    main()
