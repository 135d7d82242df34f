"""It takes a GPU without asking whether there is one."""

import os

import torch


def main() -> None:
    """Run it."""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))


if __name__ == "__main__":
    main()
