"""The helper's name promises the main process; it is true once on each node."""

import os

import torch


def is_main_process():
    return int(os.environ["LOCAL_RANK"]) == 0


def main():
    model = torch.nn.Linear(4, 4)
    if is_main_process():
        torch.save(model.state_dict(), "model.pt")  # expect: DC217=info


if __name__ == "__main__":
    main()
