"""Whether the file is there was asked before it was written: that makes nobody wait."""

import os

import torch
import torch.distributed as dist


def vocabulary(path: str) -> list:
    if not os.path.exists(path):
        if dist.get_rank() == 0:
            torch.save(["a", "b"], path)
        return torch.load(path)  # expect: DC724
    return torch.load(path)


def converted(source: str, target: str) -> dict:
    if os.path.isfile(source):
        if dist.get_rank() == 0:
            torch.save({"model": torch.load(source)}, target)
        return torch.load(target)  # expect: DC724
    return {}


def cached(path: str) -> list:
    if not os.path.exists(path):
        if dist.get_rank() == 0:
            torch.save(["a", "b"], path)
    return torch.load(path)  # expect: DC724


if __name__ == "__main__":
    dist.init_process_group("gloo")
    vocabulary("vocabulary.pt")
    converted("old.pt", "new.pt")
    cached("cache.pt")
    dist.destroy_process_group()
