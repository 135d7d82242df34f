import argparse
import os


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, default=os.environ.get("RANK", "0"))
    parser.add_argument("--size", type=int, default=int(os.environ.get("WORLD_SIZE", 1)))
    args = parser.parse_args()
    if args.rank == 0 and args.size > 1:
        print("main process of many")


if __name__ == "__main__":
    main()
