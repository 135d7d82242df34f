import argparse
import os

import group


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int)
    parser.add_argument("--meet-at", default="env://")
    args = parser.parse_args()
    args.number = int(os.environ["SLURM_PROCID"])
    args.many = int(os.environ["SLURM_NTASKS"])
    group.start(args)
    print(args.batch)


if __name__ == "__main__":
    main()
