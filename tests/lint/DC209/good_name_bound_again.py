import os


def is_main():
    rank = os.environ.get("RANK", "0")
    rank = int(rank)
    return rank == 0


def count():
    size = os.environ.get("WORLD_SIZE")
    size = 1 if size is None else int(size)
    return size > 1


def lengths():
    return len(os.environ["CUDA_VISIBLE_DEVICES"]) == 0 or os.environ["HOME"].count("/") > 2
