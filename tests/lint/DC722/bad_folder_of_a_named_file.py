"""Who names the file may have created its folder: info."""

import os

import torch
import torch.distributed as dist


def save(state, path):
    folder = os.path.dirname(path)
    if not os.path.exists(folder):
        os.makedirs(folder)  # expect: DC722=info
    if dist.get_rank() == 0:
        torch.save(state, path)


def main(output="out"):
    dist.init_process_group("gloo")
    os.makedirs(output, exist_ok=True)
    save({"step": 1}, output + "/last.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
