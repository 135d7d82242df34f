import argparse

from setup_group import connect, disconnect


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    args = parser.parse_args()
    connect(args)
    print("local rank", args.local_rank)
    disconnect()


if __name__ == "__main__":
    main()
