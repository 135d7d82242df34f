"""The second definition replaces the first one before a call."""

import os

import torch.distributed as dist


def save(folder, model):
    if not os.path.exists(folder):
        os.makedirs(folder)
    print(model)


def save(folder, model):
    if dist.get_rank() == 0:
        os.makedirs(folder, exist_ok=True)
        print(model)


def main(folder="checkpoints"):
    dist.init_process_group("gloo")
    save(folder, None)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
