import argparse

import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, required=True)
    parser.add_argument("--gpus", type=int)
    args = parser.parse_args()
    torch.cuda.set_device(args.local_rank)
    print(args.gpus)


if __name__ == "__main__":
    main()
