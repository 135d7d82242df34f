import argparse

import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("--rank", type=int, default=8, help="rank of the low-rank update")
    args = parser.parse_args()
    state = torch.load(args.source)
    state = {name.removeprefix("module."): tensor for name, tensor in state.items()}
    torch.save(state, "converted.pt")


if __name__ == "__main__":
    main()
