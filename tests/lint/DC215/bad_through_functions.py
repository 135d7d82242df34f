"""The unset rank goes through functions and objects, and nothing replaces it."""

import argparse
import os

import torch


class Settings:
    def __init__(self):
        self.local_rank = int(os.environ.get("LOCAL_RANK", -1))


def move(model, index):
    return model.to(index)  # expect: DC215


def build(args):
    return torch.nn.Linear(2, 2).cuda(args.local_rank)  # expect: DC215


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", "--local-rank", type=int, default=-1)
    args = parser.parse_args()
    assert args.local_rank is not None
    settings = Settings()
    device = torch.device("cuda", settings.local_rank)  # expect: DC215
    print(move(build(args), args.local_rank), device)


if __name__ == "__main__":
    main()
