"""Assertions and exceptions keep the -1 out."""

import argparse

import torch


def first(options):
    assert options.local_rank != -1
    return torch.device("cuda", options.local_rank)


def second(options):
    assert 0 <= options.local_rank < torch.cuda.device_count()
    return torch.device("cuda", options.local_rank)


def third(options):
    if options.local_rank < 0:
        raise ValueError("start this with torchrun")
    return torch.device("cuda", options.local_rank)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", "--local-rank", type=int, default=-1)
    options = parser.parse_args()
    print(first(options), second(options), third(options))


if __name__ == "__main__":
    main()
